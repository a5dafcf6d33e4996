"""Tables of the engine: model versions that this installation can run."""

from typing import Any

from sqlalchemy import JSON, BigInteger, CheckConstraint
from sqlmodel import Field

from core.sql.database import TableBase


class ModelVersion(TableBase, table=True):
    """One provisioned version of a model. `fingerprint` covers its weights, tokenizer and template."""

    __table_args__ = (CheckConstraint("max_model_len > 0", name="ck_model_version_max_model_len"),)

    name: str = Field(primary_key=True)
    version: str = Field(primary_key=True)
    fingerprint: str
    folder: str
    pool: str
    max_model_len: int
    manifest: dict[str, Any] = Field(sa_type=JSON)
    enabled: bool = True
    created_ms: int = Field(sa_type=BigInteger)
