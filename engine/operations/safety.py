"""Operations on safety policies: the documents of levels, their versions, and what was found by them. No text
of anybody is read."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from sqlmodel import col

from billing.api import (
    PLATFORM,
    SAFETY_DAYS_MAX,
    Change,
    Limit,
    ListQuestion,
    Look,
    OperationActor,
    SafetyDay,
    SafetyPolicy,
    Stores,
    listed_page,
    people_named,
    verdicts_by_day,
    zone_named,
)
from core.errors import bad_request, see, unknown
from core.operations import ADMINS, DEVELOPERS, OPERATORS, ListedPage, Role, Uses, operation
from engine.operations.policy_changes import PolicyChange, change_of
from engine.operations.policy_levels import (
    Level,
    PolicyVersion,
    diff_lines,
    level_in,
    readable,
    state_of,
    with_earlier,
)
from engine.operations.pool_questions import AUDIT, READERS
from engine.policies.levels import level_facts
from engine.policies.merge import SCOPES
from engine.policies.one_at_a_time import OneAtATime
from engine.policies.store import (
    PolicyChanged,
    PolicyStore,
    checked_text,
    scope_of,
    tell_policies,
    versions_of,
)
from engine.safety.documents import DEFAULT, PolicyDocument, PolicyError, policy_hash

EDITORS = OPERATORS | ADMINS
TRIERS = OPERATORS | DEVELOPERS | {Role.SUPPORT}
READS = "tenant project safety_policy"
PEOPLE = "invitation service_token membership person"
CHECKING = OneAtATime()  # many patterns take a processor for seconds

Document = dict[str, Any]


PolicyTenant = Annotated[
    str | None, Meta(description="This tenant's (name or id). Without it, the platform's.")
]
PolicyProject = Annotated[
    str | None, Meta(description="The document of this project (name or id) of the tenant.")
]


class NamePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Whose document. A member's is its tenant's, or of a project there."""

    tenant: PolicyTenant = None
    project: PolicyProject = None


class ShowPolicy(NamePolicy, frozen=True, kw_only=True):
    """Whose document, in which version."""

    version: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="An earlier version; the newest without it.")
    ] = None


class PolicyHistory(ListQuestion, frozen=True, kw_only=True):
    """Whose versions, and how many of them."""

    tenant: PolicyTenant = None
    project: PolicyProject = None
    limit: Limit = 20


class CountVerdicts(msgspec.Struct, frozen=True, kw_only=True):
    """Whose verdicts, and of how many days."""

    tenant: Annotated[
        str | None,
        Meta(description="Only this tenant's (name or id), by its own days; else all, by UTC's."),
    ] = None
    days: Annotated[int, Meta(ge=1, le=SAFETY_DAYS_MAX)] = 30


class RemovePolicy(NamePolicy, frozen=True, kw_only=True):
    """Whose document to change. `base`: nothing is changed where its newest version is another one."""

    base: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="The newest version that you saw; 0: none.")
    ] = None
    loosen: Annotated[
        bool, Meta(description="The platform may look for less than before, for every tenant.")
    ] = False


class SetPolicy(RemovePolicy, frozen=True, kw_only=True):
    """Whose document to set, and which."""

    document: PolicyDocument


class SetPolicyFacts(msgspec.Struct, frozen=True):
    """The version that holds now, and what it changed. `changed` False: the level had this document."""

    version: PolicyVersion
    changed: bool
    change: PolicyChange


class ShownPolicy(msgspec.Struct, frozen=True):
    """A level's document. `version`: who made it, None where there is none; `state`: what became of it;
    `base`: the newest version's number."""

    of: Level
    version: PolicyVersion | None
    state: str
    base: int
    document: Document


class MergedPolicy(msgspec.Struct, frozen=True):
    """All that holds for a level, with whose rule each is."""

    of: Level
    sha256: str
    document: Document


class PolicyHistoryVersion(msgspec.Struct, frozen=True):
    """A version, and what it says otherwise than the one before. `who`: its author by name."""

    version: PolicyVersion
    who: str
    state: str
    diff: list[str]


class PolicyVersions(ListedPage[PolicyHistoryVersion], frozen=True, kw_only=True):
    """Versions of a level's document, newest first."""

    of: Level


class DatedVerdicts(msgspec.Struct, frozen=True):
    """What was found on one day of the tenant's, or of UTC's."""

    day: str
    found: SafetyDay


@operation("safety.show", "GET /safety/policy", may=READERS, uses=Uses(reads=READS))
async def show_policy(look: Look, ask: ShowPolicy) -> ShownPolicy:
    """Show a level's document, and who set it, when and why."""
    level, store = await level_meant(look, ask), PolicyStore(look.db)
    rows = await store.history(level.tenant_id, level.project_id, 1)
    row, base = (rows[0], rows[0].version) if rows else (None, 0)
    if ask.version is not None:
        row = await store.version(level.tenant_id, level.project_id, ask.version)
        if row is None:
            told = f"{level.name} has no version {ask.version}"
            raise unknown(told, field="version", see=see("safety.history", **_names(level)))
    document = readable(row) if row else None
    document = DEFAULT if document is None and not level.tenant_id else document or PolicyDocument()
    version = PolicyVersion.of(row) if row else None
    return ShownPolicy(level, version, state_of(row) if row else "", base, level_facts(document))


@operation("safety.merged", "GET /safety/merged", may=READERS, uses=Uses(reads=READS))
async def show_merged(look: Look, ask: NamePolicy) -> MergedPolicy:
    """Show all that holds for a level: its own rules and those of the levels outside it. Members see of the
    platform's patterns and words that they are there, and what they do."""
    level = await level_meant(look, ask)
    try:
        held = await PolicyStore(look.db).applies(level.tenant_id, level.project_id)
    except PolicyError as error:
        raise bad_request(str(error)) from error
    shown = held if look.who.tenant is None else without_platform_texts(held)
    return MergedPolicy(level, policy_hash(held), msgspec.to_builtins(shown))


@operation("safety.history", "GET /safety/versions", may=READERS, uses=Uses(reads=f"{READS} {PEOPLE}"))
async def policy_history(look: Look, ask: PolicyHistory) -> PolicyVersions:
    """List versions of a level's document, newest first: who made them, when and why."""
    level = await level_meant(look, ask)
    statement = versions_of(level.tenant_id, level.project_id)
    page: ListedPage[SafetyPolicy] = await listed_page(
        look, ask, statement, col(SafetyPolicy.version), lambda row: row, newest_first=True
    )
    rows = list(page.items)
    if page.next is not None:
        store, last = PolicyStore(look.db), rows[-1].version
        rows += await store.history(level.tenant_id, level.project_id, 1, before=last)
    people = await people_named(
        look.db, level.tenant_id, {row.author for row in rows}, staff=look.who.tenant is None
    )
    versions: list[PolicyHistoryVersion] = []
    for row, earlier in list(with_earlier(rows))[: len(page.items)]:
        diff = diff_lines(scope_of(row), readable(earlier) if earlier else None, readable(row))
        versions.append(
            PolicyHistoryVersion(
                PolicyVersion.of(row), people.get(row.author, row.author), state_of(row), diff
            )
        )
    return PolicyVersions(versions, page.next, of=level)


@operation(
    "safety.stats",
    "GET /safety/stats",
    may=READERS,
    uses=Uses(reads="tenant usage_event refusal_minute period_close"),
)
async def count_verdicts(look: Look, ask: CountVerdicts) -> ListedPage[DatedVerdicts]:
    """Count what policies found, by day, category, side and action, newest first."""
    named = ask.tenant if ask.tenant is not None else look.who.tenant
    owner = None if named is None else await look.tenant(named)
    zone = zone_named(owner.time_zone if owner is not None else "UTC")
    days = await verdicts_by_day(look.db, owner, ask.days, look.now_ms())

    def dated(each: SafetyDay) -> DatedVerdicts:
        return DatedVerdicts(
            datetime.fromtimestamp(each.window.start_ms / 1000, zone).date().isoformat(), each
        )

    return ListedPage([dated(each) for each in days])


async def document_checked(stores: Stores, who: OperationActor, ask: SetPolicy) -> str:
    """The document as it is stored. Raises Refused for what cannot be a policy, and where too many wait."""
    try:
        return await CHECKING.run(who.tenant or PLATFORM, checked_text, ask.document)
    except PolicyError as error:
        raise bad_request(str(error), field="document") from error


@operation(
    "safety.set",
    "PUT /safety/policy",
    may=EDITORS,
    audit="policy.set",
    reason=True,
    before=document_checked,
    uses=Uses(reads=READS, writes=f"tenant safety_policy {AUDIT}", keys=("parley:control",)),
)
async def set_policy(change: Change, ask: SetPolicy) -> SetPolicyFacts:
    """Make a document the newest version of a level. It replaces the whole document there, from now on; what
    runs keeps the rules that it began with."""
    return await _written(change, await level_meant(change, ask), ask.document, change.prepared, ask)


@operation(
    "safety.remove",
    "DELETE /safety/policy",
    may=EDITORS,
    audit="policy.remove",
    reason=True,
    uses=Uses(reads=READS, writes=f"tenant safety_policy {AUDIT}", keys=("parley:control",)),
)
async def remove_policy(change: Change, ask: RemovePolicy) -> SetPolicyFacts:
    """Let a level have no document of its own any more, from now on."""
    return await _written(change, await level_meant(change, ask), None, "", ask)


async def _written(
    change: Change, level: Level, document: PolicyDocument | None, text: str, ask: RemovePolicy
) -> SetPolicyFacts:
    found = await change_of(change.db, level, document)
    if ask.base is not None and ask.base != found.on_version:
        now = await PolicyStore(change.db).version(level.tenant_id, level.project_id, found.on_version)
        if now is None:
            raise bad_request(f"{level.name} has no version {ask.base}", field="base")
        raise PolicyChanged(now, ask.base)
    if found.losses and not level.tenant_id and not ask.loosen:
        told = "for every tenant the platform would look for less: say that this is meant"
        raise bad_request(told, field="loosen")
    row = await PolicyStore(change.db).write(
        level.tenant_id, level.project_id, text, change.terms.reason, found.on_version
    )
    if row.version != found.on_version:
        change.after(tell_policies, level.tenant_id)
    return SetPolicyFacts(PolicyVersion.of(row), row.version != found.on_version, found)


async def level_meant(unit: Look | Change, ask: NamePolicy | PolicyHistory) -> Level:
    """The level that is asked for: a member's is its tenant's. Raises Refused where there is no such."""
    named = ask.tenant if ask.tenant is not None else unit.who.tenant
    owner = None if named is None else await unit.tenant(named)
    return await level_in(unit.db, owner, ask.project)


def without_platform_texts(held: PolicyDocument) -> PolicyDocument:
    """What members see of all that holds: of the platform's own patterns and words their names. Pure."""

    of_platform = SCOPES[0]
    patterns = (replace(each, pattern="") if each.scope == of_platform else each for each in held.patterns)
    words = (replace(each, words=()) if each.scope == of_platform else each for each in held.words)
    return replace(held, patterns=tuple(patterns), words=tuple(words))


def _names(level: Level) -> dict[str, str]:
    names = {"tenant": level.tenant_name, "project": level.project_name}
    return {name: value for name, value in names.items() if value}


OPERATIONS = (show_policy, show_merged, policy_history, count_verdicts, set_policy, remove_policy)
