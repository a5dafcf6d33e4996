"""What a document of a level would change: a diff, what is lost, what does nothing."""

import msgspec

from billing.api import tenant_names
from core.sql.database import Database
from engine.operations.policy_levels import Level, PolicyVersion, diff_lines, readable
from engine.policies.losses import Losses, Side, losses, one_sided
from engine.policies.merge import SCOPES, merged
from engine.policies.overrides import LevelKey, Override, overridden, overridden_below
from engine.policies.store import BELOW_MAX, PolicyStore
from engine.safety.documents import PolicyDocument


class OverrideBelow(msgspec.Struct, frozen=True):
    """A rule of a level within that does nothing, and whose it is."""

    whose: str
    rule: Override


class PolicyChange(msgspec.Struct, frozen=True):
    """What a document would change: the version that it replaces, lines of a diff, what is no longer looked
    for or weaker, names of its rules that look at one side only, its own rules that do nothing, and those of
    levels within it. `below_all` False: there are more levels than were looked at."""

    level: Level
    replaces: PolicyVersion | None
    diff: list[str]
    losses: Losses
    one_sided: dict[Side, list[str]]
    own: list[Override]
    below: list[OverrideBelow]
    below_all: bool = True

    @property
    def on_version(self) -> int:
        """The version that it was seen on; 0: there was none."""
        return self.replaces.version if self.replaces else 0


async def change_of(db: Database, level: Level, document: PolicyDocument | None) -> PolicyChange:
    """What it would change now. Raises Refused where a stored document is damaged."""
    store = PolicyStore(db)
    rows = dict(await store.newest(level.tenant_id, level.project_id))
    last = rows.get(level.scope)
    before = {scope: readable(row) for scope, row in rows.items()}
    after = before | {level.scope: document}
    held_before, held = (merged(*(each.get(scope) for scope in SCOPES)) for each in (before, after))
    outer = merged(*(None if scope == level.scope else before.get(scope) for scope in SCOPES))
    below, below_all = await _below(db, store, level, document, before.get("platform"))
    return PolicyChange(
        level,
        PolicyVersion.of(last) if last else None,
        diff_lines(level.scope, before.get(level.scope), document),
        losses(held_before, held),
        one_sided(document or PolicyDocument(), held),
        overridden(outer, document) if document and level.tenant_id else [],
        below,
        below_all,
    )


async def _below(
    db: Database,
    store: PolicyStore,
    level: Level,
    document: PolicyDocument | None,
    platform: PolicyDocument | None,
) -> tuple[list[OverrideBelow], bool]:
    """What does nothing of the levels within this one, once it has the document; False: of some of them."""
    if level.project_id:
        return [], True
    rows = await store.below(level.tenant_id)
    documents = {(row.tenant_id, row.project_id): readable(row) for row in rows}
    levels: dict[LevelKey, PolicyDocument] = {place: each for place, each in documents.items() if each}
    if level.tenant_id and document:
        levels[level.tenant_id, ""] = document
    names = await tenant_names(db, (tenant for tenant, _ in levels))
    found = overridden_below(platform if level.tenant_id else document, levels)
    within = [OverrideBelow(_whose(names, at), each) for at, each in found if at != (level.tenant_id, "")]
    return within, len(rows) < BELOW_MAX


def _whose(names: dict[str, str], place: LevelKey) -> str:
    tenant, project = names.get(place[0], place[0]), place[1]
    return f"project {project} of {tenant}" if project else f"tenant {tenant}"
