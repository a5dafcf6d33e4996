"""What `parley safety set` says of a change before it is made: a diff, what is lost, what does nothing."""

from collections.abc import Iterator
from typing import Any

import msgspec

from billing.api import SafetyPolicy, tenant_names
from core.errors import StartupError
from core.sql.database import Database
from core.terminal.terminal import print_line
from engine.cli.formatting import time_of_day
from engine.cli.policy_levels import Level, diff_colour, diff_lines, readable
from engine.policies.losses import Losses, Side, losses, one_sided
from engine.policies.merge import SCOPES, merged
from engine.policies.overrides import LevelKey, Override, overridden, overridden_below
from engine.policies.store import BELOW_MAX, PolicyStore
from engine.safety.documents import PolicyDocument

OVERRIDES_SHOWN = 20
NAMES_SHOWN = 20
SIDES: dict[Side, str] = {"action": "in answers", "prompt": "in prompts"}


class PolicyChange(msgspec.Struct, frozen=True):
    """What a document would change: the version that it replaces, lines of a diff, what is no longer looked
    for or weaker, names of its rules that look at one side only, its own rules that do nothing, and those of
    levels within it, each with whose it is."""

    level: Level
    replaces: SafetyPolicy | None
    diff: list[str]
    losses: Losses
    one_sided: dict[Side, list[str]]
    own: list[Override]
    below: list[tuple[str, Override]]

    @property
    def on_version(self) -> int:
        """The version that it was seen on; 0: there was none."""
        return self.replaces.version if self.replaces else 0

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "diff": self.diff,
            "replaces": self.on_version,
            **msgspec.to_builtins(self.losses),
            "not_looked_for": {SIDES[side].split()[1]: names for side, names in self.one_sided.items()},
            "overridden": msgspec.to_builtins(self.own),
            "overridden_below": [{"whose": whose, **msgspec.to_builtins(each)} for whose, each in self.below],
        }


async def change_of(
    db: Database, store: PolicyStore, level: Level, document: PolicyDocument | None, base: int | None
) -> PolicyChange:
    """What it would change now. Raises StartupError where the document was shown on another version."""
    rows = dict(await store.newest(level.tenant_id, level.project_id))
    last = rows.get(level.scope)
    if base is not None:
        _check_base(level, last, base)
    before = {scope: readable(row) for scope, row in rows.items()}
    after = before | {level.scope: document}
    held_before, held = (merged(*(each.get(scope) for scope in SCOPES)) for each in (before, after))
    outer = merged(*(None if scope == level.scope else before.get(scope) for scope in SCOPES))
    return PolicyChange(
        level,
        last,
        diff_lines(level.scope, before.get(level.scope), document),
        losses(held_before, held),
        one_sided(document or PolicyDocument(), held),
        overridden(outer, document) if document and level.tenant_id else [],
        await _below(db, store, level, document, before.get("platform")),
    )


def _check_base(level: Level, last: SafetyPolicy | None, base: int) -> None:
    newest = last.version if last else 0
    if base == newest:
        return
    if base > newest or last is None:
        raise StartupError(
            f"its base is version {base}, and {level.name} has {f'version {newest}' if newest else 'none'}: "
            f"was it shown elsewhere? Take `base` out of it to set it here",
            {"base": base, "version": newest},
        )
    history, show = (f"parley safety {name}{level.options}" for name in ("history", "show"))
    raise StartupError(
        f"version {last.version} by {last.author} came in between, the file is from version {base}: "
        f"nothing is changed. See `{history} --diff`, and make your change in "
        f"what `{show}` prints now; without `base` the file replaces all there is",
        {"base": base, "version": last.version, "author": last.author},
    )


async def _below(
    db: Database,
    store: PolicyStore,
    level: Level,
    document: PolicyDocument | None,
    platform: PolicyDocument | None,
) -> list[tuple[str, Override]]:
    """What does nothing of the levels within this one, once it has the document."""
    if level.project_id:
        return []
    rows = await store.below(level.tenant_id)
    if len(rows) == BELOW_MAX:
        print_line(f"only {BELOW_MAX:,} levels within it were looked at", err=True)
    documents = {(row.tenant_id, row.project_id): readable(row) for row in rows}
    levels: dict[LevelKey, PolicyDocument] = {place: each for place, each in documents.items() if each}
    if level.tenant_id and document:
        levels[level.tenant_id, ""] = document
    names = await tenant_names(db)
    found = overridden_below(platform if level.tenant_id else document, levels)
    return [(_whose(names, place), each) for place, each in found if place != (level.tenant_id, "")]


def _whose(names: dict[str, str], place: LevelKey) -> str:
    tenant, project = names.get(place[0], place[0]), place[1]
    return f"project {project} of {tenant}" if project else f"tenant {tenant}"


def show_change(change: PolicyChange) -> None:
    """Print it for people."""
    for line in change.diff:
        print_line(line, colour=diff_colour(line))
    if change.diff and (replaced := _replaced(change)):
        print_line(f"It replaces {replaced}")
    for line in loss_lines(change.losses):
        print_line(line, colour="red")
    for line in one_sided_lines(change.one_sided):
        print_line(line)
    for each in change.own:
        print_line(_told(each))
    for whose, each in change.below[:OVERRIDES_SHOWN]:
        print_line(f"{whose}: {_told(each)}")
    if (more := len(change.below) - OVERRIDES_SHOWN) > 0:
        print_line(f"and {more:,} more rules of levels within it")


def _replaced(change: PolicyChange) -> str:
    if (row := change.replaces) is not None:
        return f"version {row.version} by {row.author}, {time_of_day(row.created_ms)}: {row.reason}"
    return "" if change.level.tenant_id else "the built-in default"


def loss_lines(found: Losses) -> Iterator[str]:
    """What a change no longer does, for people. Pure."""
    for side, where in SIDES.items():
        lost = [each for each in found.lost if each.of == side]
        if names := [each.name for each in lost if each.words is None]:
            yield f"No longer looked for {where}: {_listed(names)}"
        for each in lost:
            if each.words is not None:
                yield f"No longer looked for {where}: {each.words:,} words of {each.name}"
    for each in found.weakened:
        yield f"Weaker {SIDES[each.of]}: {each.name}, {each.was} until now, then {each.becomes}"


def one_sided_lines(found: dict[Side, list[str]]) -> Iterator[str]:
    """Rules that one side only is looked at for. Pure."""
    for side, names in found.items():
        if names:
            yield f'{_listed(names)}: not looked for {SIDES[side]}; add "{side}": "redact" (or block, flag)'


def _listed(names: list[str]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _told(each: Override) -> str:
    return f"{each.name}: {each.asked} {SIDES[each.of]} does nothing: the {each.scope}'s {each.holds} holds"
