"""From a file of pools, and the pools that there are, to what is to be done. Pure.

What a file does not name of a pool stays as it is; a pool that it does not name is left alone, unless it is
to be pruned. The same file again plans nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

from billing.cli.pool_file import FilePool, facts_in
from billing.operations.pool_facts import PoolFacts, PoolStateName

FREEING = ("model", "tenant", "state")  # who has them decides whether another pool may


class PlannedAction(StrEnum):
    """What is done with a pool."""

    EDIT = "edit"
    CREATE = "create"
    DELETE = "delete"


@dataclass(frozen=True)
class PlannedPool:
    """What is to be done with one pool. `changes`: of each fact the value before and after; `version`: of the
    pool as it was seen; `asked`: what the file says of it."""

    pool: str
    action: PlannedAction
    changes: Mapping[str, tuple[Any, Any]] = field(default_factory=dict[str, tuple[Any, Any]])
    version: int | None = None
    asked: FilePool | None = None
    draining: bool = False

    @property
    def frees(self) -> bool:
        """True where another pool may be made once this is done, and not before."""
        return self.action is PlannedAction.DELETE or any(name in self.changes for name in FREEING)


def planned(
    asked: Sequence[FilePool], now: Mapping[str, tuple[PoolFacts, int | None]], pruned: Sequence[str]
) -> list[PlannedPool]:
    """What is to be done, in order: what is pruned drains first, since it may hold what others want. `now`:
    the pools that there are, with their versions."""
    plans = [_deleted(*now[name]) for name in sorted(pruned)]
    plans += [_edited(each, *now[each.pool]) for each in asked if each.pool in now]
    plans += [_created(each) for each in asked if each.pool not in now]
    return [each for each in plans if each.action is not PlannedAction.EDIT or each.changes]


def _deleted(pool: PoolFacts, version: int | None) -> PlannedPool:
    draining = pool.state is PoolStateName.DRAINING
    return PlannedPool(pool.pool, PlannedAction.DELETE, version=version, draining=draining)


def _edited(asked: FilePool, pool: PoolFacts, version: int | None) -> PlannedPool:
    before = facts_in(pool)
    return PlannedPool(
        asked.pool, PlannedAction.EDIT, differences(before, {**before, **asked.facts}), version, asked
    )


def _created(asked: FilePool) -> PlannedPool:
    changes = {name: (None, value) for name, value in asked.facts.items()}
    return PlannedPool(asked.pool, PlannedAction.CREATE, changes, asked=asked)


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Each fact that is another after than before."""
    return {name: (before[name], value) for name, value in after.items() if value != before[name]}


SIGNS = {PlannedAction.CREATE: "+", PlannedAction.EDIT: "~", PlannedAction.DELETE: "-"}


def line_of(plan: PlannedPool) -> str:
    """A plan in a line."""
    begin = f"{SIGNS[plan.action]} {plan.pool}: {plan.action.value}"
    if plan.action is PlannedAction.DELETE:
        return f"{begin} once it is empty" if plan.draining else f"{begin}: it drains first"
    new = plan.action is PlannedAction.CREATE
    told = [
        f"{name} {word(after)}" if new else f"{name} {word(before)} → {word(after)}"
        for name, (before, after) in plan.changes.items()
    ]
    return f"{begin} {', '.join(told)}"


def word(value: Any) -> str:
    """A fact's value in words; a dash: nothing."""
    if value is None or value == [] or value == {}:
        return "–"
    if isinstance(value, Mapping):
        pairs = cast(Mapping[Any, Any], value)
        return ",".join(f"{name}={of}" for name, of in pairs.items())
    if isinstance(value, list):
        things = cast(list[Any], value)
        return ",".join(str(each) for each in things)
    return str(value)
