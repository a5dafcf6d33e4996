"""What `parley safety set` says of a change before it is made: a diff, what is lost, what does nothing."""

from collections.abc import Iterator
from typing import Any

import msgspec

from core.errors import StartupError
from core.terminal.terminal import print_line
from engine.cli.policy_levels import diff_colour, options_of
from engine.operations.policy_changes import PolicyChange
from engine.policies.losses import Losses, Side
from engine.policies.overrides import Override
from engine.policies.store import BELOW_MAX

OVERRIDES_SHOWN = 20
NAMES_SHOWN = 20
SIDES: dict[Side, str] = {"action": "in answers", "prompt": "in prompts"}


def change_facts(change: PolicyChange) -> dict[str, Any]:
    """A change for JSON. Pure."""
    below = [{"whose": each.whose, **msgspec.to_builtins(each.rule)} for each in change.below]
    return {
        "diff": change.diff,
        "replaces": change.on_version,
        **msgspec.to_builtins(change.losses),
        "not_looked_for": {SIDES[side].split()[1]: names for side, names in change.one_sided.items()},
        "overridden": msgspec.to_builtins(change.own),
        "overridden_below": below,
    }


def check_base(change: PolicyChange, base: int | None) -> None:
    """Raise StartupError where the document was shown on another version than it would replace."""
    level, last, newest = change.level, change.replaces, change.on_version
    if base is None or base == newest:
        return
    if base > newest or last is None:
        raise StartupError(
            f"its base is version {base}, and {level.name} has {f'version {newest}' if newest else 'none'}: "
            f"was it shown elsewhere? Take `base` out of it to set it here",
            {"base": base, "version": newest},
        )
    history, show = (f"parley safety {name}{options_of(level)}" for name in ("history", "show"))
    raise StartupError(
        f"version {last.version} by {last.author} came in between, the file is from version {base}: "
        f"nothing is changed. See `{history} --diff`, and make your change in "
        f"what `{show}` prints now; without `base` the file replaces all there is",
        {"base": base, "version": last.version, "author": last.author},
    )


def show_change(change: PolicyChange) -> None:
    """Print it for people."""
    if not change.below_all:
        print_line(f"only {BELOW_MAX:,} levels within it were looked at", err=True)
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
    for each in change.below[:OVERRIDES_SHOWN]:
        print_line(f"{each.whose}: {_told(each.rule)}")
    if (more := len(change.below) - OVERRIDES_SHOWN) > 0:
        print_line(f"and {more:,} more rules of levels within it")


def _replaced(change: PolicyChange) -> str:
    if (row := change.replaces) is not None:
        return f"version {row.version} by {row.author}, {row.created}: {row.reason}"
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
