"""Every script on a real cluster of two nodes: it stays in its slot, and a call may be repeated (INV-12)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from core.redis.client import RedisClient
from core.redis.script_calls import ScriptCall
from core.redis.scripts import Script, known_scripts
from core.sql.database import Database
from engine.queue.script_replies import ReapReply
from engine.queue.types import AppendCode, ReplayCode
from tests.engine.builders import Pool
from tests.engine.queue.cluster_day import POOLS, everything
from tests.support.cluster import cluster as cluster  # the fixtures
from tests.support.cluster import cluster_url as cluster_url
from tests.support.home import settings_in
from tests.support.key_kinds import kind_of
from tests.support.repeats import Repeat, Repeats, differences, repeated
from tests.system.script_days import a_connections_day, a_supervisors_day, a_tenants_day, tenant_on

ROOT = Path(__file__).parents[2]
FILES = sorted(
    file
    for package in ("core", "billing", "engine", "server", "admin")
    for file in (ROOT / package).rglob("*.lua")
    if file.parent.name != "prelude"
)

NOTHING_REAPED = ReapReply(requeued=0, expired=[], dead_readers=0, moves=[])
CLOCK = "engine/queue/lua/clock.lua"  # within one millisecond it answers the same
# How the second answer says that it is done already; every other script's is the first one again.
DONE: dict[str, Callable[[Any, Any], bool]] = {
    "billing/dedicated_pools/lua/taken.lua": lambda first, second: second == 0,  # forgotten already
    "billing/quota/lua/admit.lua": lambda first, second: (
        replace(second, sealed=[]) == replace(first, left=[])
    ),  # without what is left of limits
    "billing/quota/lua/end_take.lua": lambda first, second: second is False,  # not there any more
    "billing/quota/lua/limits.lua": lambda first, second: second >= first,  # the time
    "billing/quota/lua/release.lua": lambda first, second: second is False,  # not open any more
    "billing/quota/lua/settle.lua": lambda first, second: second == b"dup",
    "engine/queue/lua/admit.lua": lambda first, second: second is False,  # it is so already: only logged
    "engine/queue/lua/migrate_adopt.lua": lambda first, second: second == 0,
    "engine/queue/lua/append.lua": lambda first, second: (
        second.answers == [replace(each, code=AppendCode.DUP) for each in first.answers]
    ),
    CLOCK: lambda first, second: second >= first,
    "engine/queue/lua/deregister.lua": lambda first, second: second == 0,  # nothing is left to requeue
    "engine/queue/lua/enqueue.lua": lambda first, second: second == replace(first, created=False),
    "engine/queue/lua/park.lua": lambda first, second: second.status == "parked",  # the status it has
    "engine/queue/lua/unpark.lua": lambda first, second: second.status == "queued",
    "engine/queue/lua/reap.lua": lambda first, second: second == NOTHING_REAPED,
    "engine/queue/lua/replay.lua": lambda first, second: (
        second == replace(first, outcomes=[(ReplayCode.KNOWN, at) for _, at in first.outcomes])
    ),
    "engine/queue/lua/rewrite.lua": lambda first, second: second == replace(first, code=AppendCode.DUP),
}
# What a repeat does change, and why that harms nobody.
CHANGES = {
    "server/connection/lua/session_resume.lua": "the number goes up once more: nobody repeats the call, "
    "and a client whose hello failed shows its old token, which is good until it has confirmed the newest",
}
# The kinds of keys that some call leaves without an expiry, and who removes them (docs/redis.md).
LASTING = {
    "P:act:": "its last request leaves the line",
    "P:admits": "one a pool: gone once the pool lets everybody in",
    "P:age:": "its requests are claimed or end",
    "P:claims:": "its worker goes, with the last of them",
    "P:deadlines": "its requests end",
    "P:ended": "trimmed behind billers and recorders",
    "P:fresh:": "its worker goes, with the last of them",
    "P:gws": "the reaper once their leases have ended",
    "P:ids:": "its requests are claimed or end",
    "P:in:": "the end of its request",
    "P:log:": "expires from the end of its request on",
    "P:moving": "the move is over",
    "P:parked": "its requests go on or end",
    "P:rd:": "the end of its request, or its gateways' leases",
    "P:reads:": "the end of its requests, or its gateway's lease",
    "P:ready": "a biller that has stored it",
    "P:ready_open": "a biller, once nobody reports any more",
    "P:req:": "expires with its log",
    "P:run:": "nothing of the tenant runs",
    "P:supervisors": "each report tidies it",
    "P:sys": "one a pool",
    "P:ten:": "one a tenant and pool",
    "P:tok:": "the end of its request",
    "P:wake": "workers, and 64 entries at most",
    "P:worker:": "deregister, or the reaper once its lease has ended",
    "P:workers": "deregister, or the reaper once its lease has ended",
    "T:conc": "settle, release, or the deadline",
    "T:conc:": "settle, release, or the deadline",
    "T:live": "settle, release, or the deadline",
    "T:moneys": "the keys of money that it names expire, and seeding tidies it",
    "T:posted": "one a tenant",
    "T:rq:": "expires from settle or release on",
    "T:windows": "seeding tidies it",
    "I:pools": "one an installation",
    "parley:tenants:open": "the sweep, a day after a tenant's last request",
}


def servers(cluster: Any) -> list[str]:
    """Its nodes."""
    return [f"redis://{node.host}:{node.port}" for node in cluster.get_primaries()]


def file_of(script: Script[Any, Any]) -> str:
    """Where it stands."""
    return next(str(file.relative_to(ROOT)) for file in FILES if script.source.endswith(_body(file)))


def _body(file: Path) -> str:
    return file.read_text().partition("\n")[2]


def wrong(made: list[Repeat]) -> list[str]:
    """The calls whose repetition was not harmless, as it is said of them."""
    found: list[str] = []
    for each in made:
        file = file_of(each.script)
        if file in CHANGES:
            continue
        is_done = DONE.get(file, lambda first, second: False)
        if each.changed:
            found.append(f"{file} {each.arguments}: {each.changed}")
        if each.first != each.second and not is_done(each.first, each.second):
            found.append(f"{file} {each.arguments}: {each.first} and then {each.second}")
    return found


@pytest.mark.parametrize("node", [0, 1])
async def test_every_script_stays_in_its_slot_and_may_be_repeated(
    node: int, cluster: RedisClient, cluster_url: str, home: Path, sqlite: Database
):
    """INV-12: each call is made twice: the second changes nothing, and is answered as the first was or that
    it is done. No script of the tree is left out, and no exception stands for one that needs none. What
    a call left without an expiry is of kinds that somebody removes."""
    settings, tenant = settings_in(home, redis_url=cluster_url), tenant_on(node)
    with repeated(*servers(cluster)) as made:
        await everything(Pool(cluster, name=POOLS[node]))
        await a_supervisors_day(Pool(cluster, name=POOLS[node]), sqlite)
        await a_tenants_day(cluster, settings, tenant)
        await a_connections_day(cluster, settings, tenant)
    assert not wrong(made), "\n".join(wrong(made))
    lasting = {kind_of(key) for key in made.lasting}
    assert lasting == LASTING.keys(), "a key that nobody removes, or a list that is old"
    uncalled = {str(file.relative_to(ROOT)) for file in FILES} - {file_of(each.script) for each in made}
    assert not uncalled, f"no day of tests/system/script_days.py calls {sorted(uncalled)}"
    differ = {file_of(each.script) for each in made if each.first != each.second}
    assert differ - CHANGES.keys() | {CLOCK} == DONE.keys()
    assert {file_of(each.script) for each in made if each.changed} == CHANGES.keys()


async def test_a_script_that_may_not_be_repeated_is_noticed(cluster: RedisClient, tmp_path: Path):
    """By what it leaves, also where it answers the same; on whichever node."""
    file = tmp_path / "count.lua"
    file.write_text("#!lua\nredis.call('INCR', KEYS[1])\nredis.call('EXPIRE', KEYS[1], 60)\nreturn 1\n")
    count = Script(file, ScriptCall, int)
    with repeated(*servers(cluster)) as made:
        for key in ("a", "b", "c"):
            assert await count(cluster, [key], ScriptCall()) == 1
    assert [each.changed for each in made] == [{key: ("b'1' expires", "b'2' expires")} for key in "abc"]


async def test_who_calls_gets_the_first_reply(tmp_path: Path):
    """The second is for the books only; both are in them."""
    (file := tmp_path / "x.lua").write_text("#!lua\nreturn 1")
    made, replies = Repeats(), iter([1, 2])

    async def run() -> int:
        return next(replies)

    assert await made.call(run, Script(file, ScriptCall, int), [b"a"]) == 1
    assert [(each.first, each.second, each.arguments) for each in made] == [(1, 2, (b"a",))]


def test_only_the_time_between_two_calls_may_differ():
    """A lease of the server's own time is a little later; nothing else is the same."""
    before = {"lease": "1795379505436", "n": "5", "gone": "x", "text": "1795379505436 a"}
    assert not differences(before, before | {"lease": "1795379505437"})
    assert differences(
        before, {"lease": "1795379605437", "n": "6", "new": "y", "text": "1795379505436 b"}
    ) == {
        "lease": ("1795379505436", "1795379605437"),
        "n": ("5", "6"),
        "gone": ("x", None),
        "new": (None, "y"),
        "text": ("1795379505436 a", "1795379505436 b"),
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_script_is_held_to_its_slot(file: Path):
    """INV-12: `#!lua` without a word for keys of other slots: the server refuses them."""
    first = file.read_text().partition("\n")[0]
    assert first.startswith("#!lua")
    assert "allow-cross-slot-keys" not in first


def test_every_file_is_a_script():
    """One that nobody loads is nobody's."""
    bodies = {each.source.partition("\n")[2] for each in known_scripts()}
    unknown = [file for file in FILES if not any(body.endswith(_body(file)) for body in bodies)]
    assert not unknown, f"no Script loads {unknown}"
