"""Versions of the levels' documents in SQL: what holds, setting, removing, history.

A level is the platform (tenant_id PLATFORM), a tenant, or a tenant's project; its newest version holds. A
change is one transaction under the lock of the settings whose it is, with its audit row; gateways are told.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence

from sqlalchemy import ColumnElement, and_, or_
from sqlalchemy.orm import aliased
from sqlmodel import col, exists, select
from sqlmodel.ext.asyncio.session import AsyncSession
from sqlmodel.sql.expression import SelectOfScalar

from billing.api import PLATFORM, Project, SafetyPolicy, lock_settings, publish_news, record
from core.actor import current_author
from core.clock import now_ms
from core.errors import ChangeSince, Refusal, Refused, bad_request, see
from core.redis.client import RedisClient
from core.sql.database import Database
from engine.policies.levels import level_text
from engine.policies.merge import SCOPES, merged
from engine.safety.documents import PolicyDocument, PolicyError, document_of
from engine.safety.policy_checks import checked
from engine.safety.verdicts import Scope

POLICIES_CHANGED = "policies_changed"  # kind of news; tenant PLATFORM: for everybody
REASON_CHARACTERS_MAX = 500
BELOW_MAX = 1_000
AT_ONCE_CHARACTERS_MAX = 16 << 10  # of documents that are merged on the loop, in less than a millisecond


class PolicyChanged(Refused):
    """Another one changed the level since it was read. Nothing is changed."""

    def __init__(self, now: SafetyPolicy, on_version: int) -> None:
        told = f"version {now.version} by {now.author} came in between: look at it, and set yours again"
        versions = {"version": on_version}, {"version": now.version}
        since = ChangeSince(now.author, now.created_ms, "policy.set", *versions)
        super().__init__(Refusal("conflict", told, retry=True, field="base", changes=(since,)))


class PolicyStore:
    """The levels' documents of one database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def applies(self, tenant_id: str, project_id: str) -> PolicyDocument:
        """The document that holds for a project. Raises PolicyError where a stored one is damaged."""
        rows = await self.newest(tenant_id, project_id)
        if sum(len(row.document) for row in rows.values()) > AT_ONCE_CHARACTERS_MAX:
            return await asyncio.to_thread(_merged, rows)
        return _merged(rows)

    async def newest(self, tenant_id: str, project_id: str) -> Mapping[Scope, SafetyPolicy]:
        """The newest version of each level that holds for a project; with an empty project for the tenant,
        with PLATFORM for everybody."""
        of = _of_level(tenant_id, ["", project_id] if project_id else [""])
        if tenant_id != PLATFORM:
            of = or_(of, _of_level(PLATFORM, [""]))
        async with self._db.session() as session:
            rows = (await session.exec(select(SafetyPolicy).where(of, ~_is_superseded()))).all()
        return {scope_of(row): row for row in rows}

    async def set(
        self,
        redis: RedisClient,
        tenant_id: str,
        project_id: str,
        document: PolicyDocument | None,
        reason: str,
        on_version: int | None = None,
    ) -> SafetyPolicy:
        """`write` a document, None to let the level have none, and tell gateways of it. Raises PolicyError
        for what cannot be a policy."""
        text = "" if document is None else await asyncio.to_thread(checked_text, document)
        row = await self.write(tenant_id, project_id, text, reason, on_version)
        await tell_policies(self._db, redis, tenant_id)
        return row

    async def write(
        self,
        tenant_id: str,
        project_id: str,
        text: str,
        reason: str,
        on_version: int | None = None,
    ) -> SafetyPolicy:
        """Add a version to a level, and return it; the newest one where that says the same. `text`: of
        `checked_text`, made before any transaction begins; empty: the level has no document from here on.
        `on_version`: the newest version that was seen (0: none).

        Raises PolicyChanged where another version came in between, Refused where there is no such tenant,
        project or document, or it is closed.
        """
        if not 0 < len(reason.strip()) <= REASON_CHARACTERS_MAX:
            raise bad_request(f"a reason has 1 to {REASON_CHARACTERS_MAX} characters", field="reason")
        async with self._db.transaction() as session:
            await _lock(session, tenant_id, project_id)
            last = await _last(session, tenant_id, project_id)
            if on_version is not None and last is not None and last.version != on_version:
                raise PolicyChanged(last, on_version)
            sha256 = _hash(text)
            if (last.sha256 if last is not None else "") == sha256:
                if last is None or not text:
                    raise bad_request("there is no document to remove")
                return last
            row = SafetyPolicy(
                tenant_id=tenant_id,
                project_id=project_id,
                version=1 if last is None else last.version + 1,
                document=text,
                sha256=sha256,
                author=current_author().name,
                reason=reason.strip(),
                created_ms=now_ms(),
            )
            session.add(row)
            action = "policy.set" if text else "policy.remove"
            before, after = _facts(last), _facts(row)
            await record(session, tenant_id, action, project_id or tenant_id, before, after)
        return row

    async def below(self, tenant_id: str) -> Sequence[SafetyPolicy]:
        """The newest versions of the levels within a tenant; with PLATFORM, for operators, within all of
        them, BELOW_MAX at most."""
        of = col(SafetyPolicy.project_id) != ""
        if tenant_id == PLATFORM:
            of = col(SafetyPolicy.tenant_id) != PLATFORM
        else:
            of = and_(of, col(SafetyPolicy.tenant_id) == tenant_id)
        places = (col(SafetyPolicy.tenant_id), col(SafetyPolicy.project_id))
        statement = select(SafetyPolicy).where(of, ~_is_superseded()).order_by(*places).limit(BELOW_MAX)
        async with self._db.session() as session:
            return (await session.exec(statement)).all()

    async def version(self, tenant_id: str, project_id: str, number: int) -> SafetyPolicy | None:
        """One version of a level; None: there is none of this number."""
        async with self._db.session() as session:
            return await session.get(SafetyPolicy, (tenant_id, project_id, number))

    async def history(
        self, tenant_id: str, project_id: str, limit: int, before: int | None = None
    ) -> Sequence[SafetyPolicy]:
        """A level's versions, newest first; those before a version."""
        statement = versions_of(tenant_id, project_id).order_by(col(SafetyPolicy.version).desc())
        if before is not None:
            statement = statement.where(col(SafetyPolicy.version) < before)
        async with self._db.session() as session:
            return (await session.exec(statement.limit(limit))).all()


def versions_of(tenant_id: str, project_id: str) -> SelectOfScalar[SafetyPolicy]:
    """The statement of a level's versions. Pure."""
    return select(SafetyPolicy).where(_of_level(tenant_id, [project_id]))


async def tell_policies(_: Database, redis: RedisClient, tenant_id: str) -> None:
    """Tell gateways that a level's document changed."""
    await publish_news(redis, tenant_id, POLICIES_CHANGED)


async def policy_for(db: Database, tenant_id: str, project_id: str) -> PolicyDocument:
    """The document that holds for a project. Raises PolicyError where a stored one is damaged."""
    return await PolicyStore(db).applies(tenant_id, project_id)


def written(row: SafetyPolicy) -> PolicyDocument | None:
    """A version's document; None where the level has none from it on, and where it was erased. Raises
    PolicyError where it is not as it was saved. Pure."""
    if not row.document:
        return None
    if _hash(row.document) != row.sha256:
        raise PolicyError(f"version {row.version} of the {scope_of(row)}'s document was changed since")
    return document_of(row.document)


def _merged(rows: Mapping[Scope, SafetyPolicy]) -> PolicyDocument:
    documents = {scope: written(row) for scope, row in rows.items()}
    return merged(*(documents.get(scope) for scope in SCOPES))


def scope_of(row: SafetyPolicy) -> Scope:
    """Whose level a version is. Pure."""
    if row.project_id:
        return "project"
    return "platform" if row.tenant_id == PLATFORM else "tenant"


def checked_text(document: PolicyDocument) -> str:
    """A document as it is stored. Raises PolicyError for what cannot be a policy. Takes up to seconds of CPU.
    Pure."""
    checked(document)
    return level_text(document)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest() if text else ""


def _of_level(tenant_id: str, projects: Sequence[str]) -> ColumnElement[bool]:
    return and_(col(SafetyPolicy.tenant_id) == tenant_id, col(SafetyPolicy.project_id).in_(projects))


def _is_superseded() -> ColumnElement[bool]:
    newer = aliased(SafetyPolicy)
    return exists().where(
        col(newer.tenant_id) == col(SafetyPolicy.tenant_id),
        col(newer.project_id) == col(SafetyPolicy.project_id),
        col(newer.version) > col(SafetyPolicy.version),
    )


async def _lock(session: AsyncSession, tenant_id: str, project_id: str) -> None:
    tenant = await lock_settings(session, tenant_id)
    if tenant is not None and tenant.closed_ms is not None:
        raise bad_request(f"the tenant {tenant.name!r} is closed", see=see("tenants.reopen"))
    if not project_id:
        return
    project = await session.get(Project, (tenant_id, project_id))
    if project is None:
        raise bad_request(f"there is no project {project_id!r}", field="project")


async def _last(session: AsyncSession, tenant_id: str, project_id: str) -> SafetyPolicy | None:
    statement = select(SafetyPolicy).where(_of_level(tenant_id, [project_id]))
    return (await session.exec(statement.order_by(col(SafetyPolicy.version).desc()).limit(1))).first()


def _facts(row: SafetyPolicy | None) -> dict[str, str | int] | None:
    """What the audit log says of a version: not its words."""
    return None if row is None else {"version": row.version, "sha256": row.sha256, "note": row.reason}
