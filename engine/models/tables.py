"""Tables of the engine: model versions that this installation can run."""

from typing import Any

from sqlalchemy import JSON, BigInteger, CheckConstraint
from sqlmodel import Field

from core.sql.database import TableBase


class ModelVersion(TableBase, table=True):
    """One provisioned version of a model. `fingerprint` covers its weights, tokenizer and template.
    `answer_tokens`: length of an answer whose sender gives none; None: PARLEY_ANSWER_TOKENS.
    `removed_ms`: since when its files are gone by `models remove`. `checks`: what it passed, in order, with
    the time that each took (engine/models/checks.py)."""

    __table_args__ = (
        CheckConstraint("answer_tokens > 0", name="ck_model_version_answer_tokens"),
        CheckConstraint("max_model_len > 0", name="ck_model_version_max_model_len"),
    )

    name: str = Field(primary_key=True)
    version: str = Field(primary_key=True)
    fingerprint: str
    folder: str
    max_model_len: int
    manifest: dict[str, Any] = Field(sa_type=JSON)
    enabled: bool = True
    created_ms: int = Field(sa_type=BigInteger)
    answer_tokens: int | None = Field(default=None, sa_type=BigInteger)
    removed_ms: int | None = Field(default=None, sa_type=BigInteger)
    checks: list[dict[str, Any]] = Field(default_factory=list, sa_type=JSON)
