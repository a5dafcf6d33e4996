"""What happened lately, in words: changes that people and processes recorded, and findings. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from admin.overview.answer import EventState, OverviewEvent
from admin.overview.facts import OverviewFacts
from admin.overview.words import percent
from billing.api import PLATFORM, NoisyFinding, to_display
from billing.pages import AuditLog
from core.clock import iso_time
from core.operations import OperationKind, registered

SHOWN_MAX = 12
TEXT_MAX = 200
ID_CHARACTERS_MIN = 20  # an id that people would not say
# What people do to sign in, and what processes do at their start; beside what looks record (`untold`).
QUIET = frozenset(
    {"session.open", "session.end", "session.confirm", "person.link", "key.link", "person.enroll_totp"}
    | {"person.confirm_totp", "audit.seal"}
)
STATES = {
    "period.close": EventState.WELL,
    "reconciliation.rebuild": EventState.WARN,
    "reconciliation.repair": EventState.WARN,
    "tenant.throttle": EventState.WARN,
    "tenant.lift_throttle": EventState.WELL,
    "worker.kill": EventState.WARN,
}
# Participles of verbs that are not regular, or say too little.
DONE = {
    **{"alert": "given alerts", "answers": "given a length of answers", "assign_plan": "given a plan"},
    **{"begin": "begun", "cancel": "cancelled", "claw_back": "clawed back", "cost": "given a cost"},
    **{"forget_totp": "relieved of the second factor", "grant": "given money", "make": "made"},
    **{"lift_throttle": "no longer throttled", "migrate": "moved", "migrate_all": "emptied"},
    **{"override": "overridden", "owed": "allowed to owe", "pay_out": "paid out", "rebuild": "rebuilt"},
    **{"release": "shared", "set": "set", "set_password": "given a password", "stop": "stopped"},
    **{"withdraw": "withdrawn"},
}
NOUNS = {"request.migrate_all": "pool"}  # what its target is
NAMES = ("name", "dimension", "code", "model")  # facts by which people know a thing
AMOUNTS = ("limit_units", "limit_nano", "amount_nano")  # what a new thing is about
NOT_SHOWN = frozenset({"reason", "id", "tenant_id", "sha256"})


def happened_of(facts: OverviewFacts) -> list[OverviewEvent]:
    """The last SHOWN_MAX events, newest first."""
    events = [(row.at_ms, _change(row, facts.names)) for row in facts.sql.changes]
    events += [(each.opened_ms, _noise(each, facts)) for each in facts.noisy]
    return [event for _, event in sorted(events, key=lambda each: -each[0])[:SHOWN_MAX]]


def _noise(found: NoisyFinding, facts: OverviewFacts) -> OverviewEvent:
    share, fair = percent(found.share_permille / 1000), percent(found.fair_permille / 1000)
    text = f"{facts.name(found.tenant_id)} takes {share} of {found.pool}, its fair share is {fair}"
    return OverviewEvent(iso_time(found.opened_ms), EventState.WARN, text, "biller")


def _change(row: AuditLog, names: Mapping[str, str]) -> OverviewEvent:
    before, after = _facts(row.before), _facts(row.after)
    verb = row.action.partition(".")[2]
    subject = _subject(row, {**before, **after}, names)
    words = [subject, "were" if subject.endswith("s") else "was", _participle(verb)]
    if row.action == "pool.create" and (tenant := after.get("tenant_id")):
        words.append(f"for {names.get(tenant, tenant)}")
    if row.action == "pool.move" and (tenant := after.get("tenant")):
        words = [f"{names.get(tenant, tenant)} was moved out of pool {row.target} to {after.get('to')}"]
    said = " ".join(words) + _changed(before, after)
    if reason := after.get("reason"):
        said += f": “{reason}”"
    text = said if len(said) <= TEXT_MAX else f"{said[: TEXT_MAX - 1]}…"
    return OverviewEvent(iso_time(row.at_ms), STATES.get(row.action, EventState.INFO), text, row.author)


def _subject(row: AuditLog, facts: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """What was changed: `tenant acme`, `acme: key batch`, `pool eu-1`."""
    noun = NOUNS.get(row.action) or row.action.partition(".")[0].replace("_", " ")
    whose = "" if row.tenant_id == PLATFORM else names.get(row.tenant_id, row.tenant_id)
    if noun == "tenant":
        return f"{noun} {whose or names.get(row.target, row.target)}"
    names_it = () if noun == "pool" else NAMES  # its target is its name
    named = next((str(facts[name]) for name in names_it if facts.get(name)), "").replace("_", " ")
    if not named and row.target != row.tenant_id:
        named = _short(row.target)
    return f"{f'{whose}: ' if whose else ''}{noun} {named}".rstrip()


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What it is now and was, where that is one number or word; of a new thing its amount."""
    both = [name for name in after if name in before and name not in NOT_SHOWN and not name.endswith("_ms")]
    if len(both) == 1 and all(isinstance(side[both[0]], str | int | float) for side in (before, after)):
        (name,) = both
        label = name.removesuffix("_nano").replace("_", " ")
        return f" ({label} {_value(name, after[name])}, was {_value(name, before[name])})"
    amount = next((name for name in AMOUNTS if isinstance(after.get(name), int) and not before), None)
    return "" if amount is None else f" ({_value(amount, after[amount])})"


def _value(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return to_display(value) if name.endswith("_nano") and isinstance(value, int) else f"{value:,}"


def _participle(verb: str) -> str:
    first, _, rest = verb.partition("_")
    regular = f"{first}{'d' if first.endswith('e') else 'ed'} {rest.replace('_', ' ')}".rstrip()
    return DONE.get(verb, regular)


def _short(target: str) -> str:
    """A thing's id as people would find it again; a long one's end."""
    if " " in target or len(target) < ID_CHARACTERS_MIN:
        return target
    return f"…{target[-8:]}"


def _facts(text: str) -> dict[str, Any]:
    return msgspec.json.decode(text, type=dict[str, Any] | None) or {}


def untold() -> frozenset[str]:
    """Actions of the audit log that are left out: reads, and QUIET ones."""
    looks = (each for each in registered().values() if each.kind is OperationKind.LOOK)
    return QUIET.union(*(each.audit for each in looks))


def tenants_named(rows: Sequence[AuditLog]) -> set[str]:
    """Ids of the tenants that rows are of, or name."""
    named = (_facts(row.after) for row in rows)
    said = {str(tenant) for each in named for name in ("tenant_id", "tenant") if (tenant := each.get(name))}
    return {row.tenant_id for row in rows} | said
