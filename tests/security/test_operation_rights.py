"""What each operation touches stands in its `uses`, and the two consoles may what their operations use."""

import secrets

import pytest

from billing.unit_of_work.perform import FRAME, perform
from billing.unit_of_work.units import Stores, Terms
from core.access.processes import CONNECT_COMMANDS, CONSOLE
from core.configuration.settings import Settings
from core.errors import Refused
from core.operations import Operation, OperationKind, registered
from core.sql.database import Database
from tests.security.asked_operations import NAMES, ask_for
from tests.security.rights_installation import (
    CLOCK,
    REFUSED,
    SeededInstallation,
    report_node,
    seeded_installation,
)
from tests.security.touched import Touched, touched_by
from tests.support.redis import Redis

LOADING = {"eval"}  # by gateways for all


async def touched_of(made: SeededInstallation, redis: Redis, redis_url: str, declared: Operation) -> Touched:
    """What it touches in a dry run and a true one, by a member and by staff."""
    ask = ask_for(declared, made.asked(declared))
    answered = False
    await report_node(made.stores)
    async with touched_by(made.stores.db, redis, redis_url) as touched:
        for who in reversed(made.actors(declared)):
            for dry_run in (True, False) if declared.writes else (False,):
                terms = Terms("ticket 7", dry_run, key="" if dry_run else secrets.token_hex(8))
                try:
                    await perform(made.stores, who, declared, ask, terms)
                    answered = answered or not dry_run
                except Refused as refused:
                    print(who.role, dry_run, refused.refusal.message)
    assert answered != (declared.name in REFUSED), "it shows what it touches only where it answers"
    return touched


@pytest.mark.parametrize("name", NAMES)
async def test_it_touches_what_it_declares(
    settings: Settings, sqlite: Database, redis: Redis, redis_url: str, name: str
) -> None:
    """Tables, key kinds, channels and commands; a look writes no key but a pool's clock."""
    declared = registered()[name]
    made = await seeded_installation(Stores(settings, sqlite, lambda: redis))
    touched = await touched_of(made, redis, redis_url, declared)
    writes = {*declared.uses.writes.split(), *FRAME.writes.split()}
    assert touched.writes | touched.locked <= writes
    assert touched.reads <= {*declared.uses.reads.split(), *writes}
    assert touched.keys <= {*declared.uses.keys, *FRAME.keys}
    if declared.kind is OperationKind.LOOK:
        assert touched.written <= {CLOCK, *FRAME.keys}
    allowed = set(" ".join((CONNECT_COMMANDS, *CONSOLE.commands)).split()) | LOADING
    assert touched.commands <= {command.partition("|")[0] for command in allowed}
