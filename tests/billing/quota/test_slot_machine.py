"""The tenant slot on a real Valkey is what its model in plain Python says, over random histories."""

import asyncio
import random
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from billing.limits import COUNTS, Scope, UnitLimit
from tests.billing.limited import a_rate, places
from tests.billing.slot_machine import HOUR_MS, TenantKeysMachine
from tests.support.home import settings_in
from tests.support.redis import Redis
from tests.support.tiers import by_form

EXAMPLES, STEPS = by_form(40, 400), 40
HISTORIES, LONG = 60, 120
WAITS_MS = (1, 100, 1_000, 1_999, 60_000, HOUR_MS)


@pytest.fixture
def slot(redis_url: str, home: Path) -> Generator[type[TenantKeysMachine]]:
    """The machine, with its own loop and the run's Valkey."""
    loop = asyncio.new_event_loop()
    TenantKeysMachine.loop, TenantKeysMachine.redis = loop, Redis.from_url(redis_url)
    TenantKeysMachine.config = settings_in(home, redis_url=redis_url)
    yield TenantKeysMachine
    loop.run_until_complete(TenantKeysMachine.redis.aclose())
    loop.close()


def test_the_slot_is_what_the_model_says(slot: type[TenantKeysMachine]) -> None:
    """INV-31, INV-34, INV-35, INV-36: No residue, whatever the history. Hypothesis prints the
    shortest that fails."""
    run_state_machine_as_test(
        slot,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
        ),
    )


@pytest.mark.long
def test_the_slot_is_what_the_model_says_for_long(slot: type[TenantKeysMachine]) -> None:
    """Busy histories, in which everything happens many times. However an answer is
    cut off, what it used is counted once."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(HISTORIES):
        machine = slot()
        machine.edit(*some_limits(chance))
        for _ in range(LONG):
            step(machine, chance)
            machine.check()
    assert slot.ran >= {"granted", "refused", "settled", "dup", "let in", "turned away"}


def step(machine: TenantKeysMachine, chance: random.Random) -> None:
    """Something happens."""
    draw = chance.random()
    if draw < 0.85:
        what = chance.choice(
            ["reserve", "reserve", "extend", "extend", "end", "end", "book", "bring", "bring"]
        )
        inputs = [chance.randrange(41) for _ in range(chance.randrange(1, 4))]
        more = chance.choice([0, 1, 7, 16, 40, 200])
        machine.live(what, chance.randrange(6), inputs, more, chance.random() < 0.5)
    elif draw < 0.92:
        machine.wait(chance.choice(WAITS_MS))
    elif draw < 0.94:
        machine.edit(*some_limits(chance))
    elif draw < 0.945:
        machine.flush(really=True)
    else:
        chance.choice(
            [machine.sweep, machine.reseed, lambda: machine.again(2, 5), lambda: machine.release(0)]
        )()


def some_limits(chance: random.Random) -> tuple[list[UnitLimit], list[tuple[Scope, int, bool, bool]]]:
    """A few, mostly loose."""
    units = {
        dimension: a_rate(dimension, chance.choice([60, 600, 6_000, 90_000]), chance.choice([50, 300, 5_000]))
        for dimension in chance.sample(list(COUNTS), 2)
    }
    shadow = chance.random() < 0.2
    budgets = [
        (scope, chance.choice([90, 400, 1_000, 3_000, 100_000]), chance.random() < 0.8, shadow)
        for scope in chance.sample([Scope.TENANT, Scope.USER], chance.randrange(1, 3))
    ]
    return [*units.values(), places(chance.choice([3, 9, 30]), shadow=shadow)], budgets
