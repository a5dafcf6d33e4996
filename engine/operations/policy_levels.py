"""Levels of safety policies as operations show them: whose document is meant, its versions, and what two of
them differ in."""

import difflib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from billing.api import PLATFORM, SafetyPolicy, Tenant, find_project
from core.clock import CALENDAR_MS_MAX
from core.errors import bad_request, see, unknown
from core.sql.database import Database
from core.terminal.safe_text import printable_text
from engine.policies.levels import level_facts
from engine.policies.store import scope_of, written
from engine.safety.documents import DEFAULT, PolicyDocument, PolicyError
from engine.safety.verdicts import Scope

DIFF_LINES_AROUND = 3


@dataclass(frozen=True)
class Level:
    """Whose document is meant."""

    tenant_id: str
    project_id: str
    tenant_name: str = ""
    project_name: str = ""

    @property
    def scope(self) -> Scope:
        """Which kind of level it is."""
        return "project" if self.project_id else "tenant" if self.tenant_id else "platform"

    @property
    def name(self) -> str:
        """The level for people."""
        if not self.tenant_id:
            return "the platform"
        of = f"project {self.project_name} of " if self.project_id else "tenant "
        return f"{of}{self.tenant_name}"

    @property
    def facts(self) -> dict[str, str | None]:
        """The level in JSON."""
        return {"level": self.scope, "tenant": self.tenant_id or None, "project": self.project_id or None}


PLATFORM_LEVEL = Level(PLATFORM, "")


class PolicyVersion(msgspec.Struct, frozen=True):
    """A version of a level's document: who made it, when and why."""

    level: Scope
    tenant: str | None
    project: str | None
    version: int
    sha256: str | None
    author: str
    reason: str
    created: str | None

    @classmethod
    def of(cls, row: SafetyPolicy) -> "PolicyVersion":
        """The facts of a row."""
        return cls(
            level=scope_of(row),
            tenant=row.tenant_id or None,
            project=row.project_id or None,
            version=row.version,
            sha256=row.sha256 or None,
            author=row.author,
            reason=row.reason,
            created=_time(row.created_ms),
        )


async def level_in(db: Database, tenant: Tenant | None, project: str | None) -> Level:
    """The level of a tenant, or of its project by name or id; None: the platform's. Raises Refused where
    there is no such project."""
    if tenant is None:
        if project is not None:
            raise bad_request("a project is named with its tenant", field="project")
        return PLATFORM_LEVEL
    if project is None:
        return Level(tenant.tenant_id, "", tenant.name)
    of = await find_project(db, tenant.tenant_id, project)
    if of is None:
        told = f"tenant {tenant.name} has no project {project!r}"
        raise unknown(told, field="project", see=see("projects.list", tenant=tenant.name))
    return Level(tenant.tenant_id, of.id, tenant.name, of.name)


def readable(row: SafetyPolicy) -> PolicyDocument | None:
    """A version's document; None where it was removed or erased. Raises Refused where it is damaged."""
    try:
        return written(row)
    except PolicyError as error:
        raise bad_request(str(error)) from error


def document_text(facts: dict[str, Any]) -> str:
    """A document for people, which `set` takes again as it is printed. Pure."""
    plain = json.dumps(facts, indent=2, ensure_ascii=False)
    return plain if printable_text(plain) == plain else json.dumps(facts, indent=2)


def diff_lines(scope: Scope, before: PolicyDocument | None, after: PolicyDocument | None) -> list[str]:
    """What a level's second document says otherwise, in a unified diff without its heads. A platform without
    one has the built-in default. Pure."""
    default = DEFAULT if scope == "platform" else None
    lines = difflib.unified_diff(
        _level_lines(before or default), _level_lines(after or default), lineterm="", n=DIFF_LINES_AROUND
    )
    return [line for line in lines if not line.startswith(("--- ", "+++ "))]


def state_of(row: SafetyPolicy) -> str:
    """What became of a version's document. Pure."""
    if row.document:
        return "set"
    return "erased" if row.sha256 else "removed"


def with_earlier(rows: Sequence[SafetyPolicy]) -> Iterator[tuple[SafetyPolicy, SafetyPolicy | None]]:
    """Versions, newest first, each with the one before it. Pure."""
    for at, row in enumerate(rows):
        yield row, rows[at + 1] if at + 1 < len(rows) else None


def _level_lines(document: PolicyDocument | None) -> list[str]:
    """A document by lines; none where there is no document. Pure."""
    return [] if document is None else document_text(level_facts(document)).splitlines()


def _time(unix_ms: int) -> str | None:
    if not 0 < unix_ms <= CALENDAR_MS_MAX:
        return None
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="milliseconds")
