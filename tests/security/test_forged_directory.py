"""The directory under the hand of a worker of another pool, and of a user of the tenant who works with it."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import pytest

from billing.api import AdmissionState, Admitted, Bindings, Canceller, Quota
from billing.quota.bindings import FACTS, PURPOSE, record_of
from billing.quota.open_requests import OwnerFilter, open_of
from core.access.processes import WORKER
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refusal
from core.ids import uuid7
from core.signing.signed_text import Keyring
from core.sql.database import Database
from tests.billing.quota.admissions import an_admission
from tests.server.site import RawPeer, Site, running_site
from tests.support.redis import Redis
from tests.support.users import client_of

RQ = "{t:t1}rq:r1"
OLD, NEW = b"a secret of thirty-two bytes or more", b"another secret of thirty-two bytes or more"
# What a worker may write into a record that it has read, of another request of the tenant for one.
FORGED = {
    b"hash": b"h2",
    b"owner": b"\x93\xa2p1\xa2k2\xa2u2",
    b"pool": b"B",
    b"fp": b"f2",
    b"prices": b"\x97\xa0\x00\x00\x00\x00\x00\xa3usd",
    b"project": b"p2",
    b"key": b"k2",
    b"by": b"k2",
    b"user": b"u2",
    b"model": b"other",
    b"input": b"1",
    b"deadline": b"9000000000000",
    b"hop": b"7",
}


@dataclass
class DirectoryAttack:
    """A gateway, its tenant's victim and another user, and a worker of a pool that is not the victim's."""

    site: Site
    worker: Any
    accomplice: str

    def record(self, id: str) -> str:
        """Where the directory keeps a request."""
        return f"{{t:{self.site.tenant}}}rq:{id}"


@pytest.fixture
async def attack(
    sqlite: Database, redis: Redis, redis_url: str, settings: Settings
) -> AsyncGenerator[DirectoryAttack]:
    """The worker has its own Redis user."""
    async with (
        running_site(settings, sqlite, redis) as site,
        client_of(redis, redis_url, WORKER, "evil") as worker,
    ):
        yield DirectoryAttack(site, worker, await site.another_key())


async def answer(peer: RawPeer, kind: str, id: str, **fields: Any) -> dict[str, Any]:
    """What a peer is told, without the id that it named."""
    await peer.tell(kind, id=id, **fields)
    return {name: value for name, value in (await peer.hear(id=id)).items() if name != "id"}


async def sent(attack: DirectoryAttack, peer: RawPeer, text: str) -> str:
    """A send that was taken; its id."""
    id = await peer.send(text)
    assert (await peer.hear("accepted"))["id"] == id
    return id


async def test_nobody_reads_by_a_record_that_a_worker_wrote(attack: DirectoryAttack):
    """Neither by another's facts with the victim's seal, nor by another's whole record: it is as unknown."""
    async with attack.site.welcomed() as victim, attack.site.welcomed(attack.accomplice) as thief:
        secret, own = await sent(attack, victim, "secret"), await sent(attack, thief, "own")
        mine, theirs = [await attack.worker.hgetall(attack.record(id)) for id in (own, secret)]
        unknown = await answer(thief, "attach", uuid7(now_ms()), o=0)
        assert unknown["t"] == "error"
        facts = {name: mine[name] for name in (b"owner", b"project", b"key", b"by", b"user")}
        for forged in ({**theirs, **facts}, mine, {**theirs, **facts, b"seal": mine[b"seal"]}):
            await attack.worker.hset(attack.record(secret), mapping=forged)
            assert await answer(thief, "attach", secret, o=0) == unknown
            assert (await answer(thief, "cancel", secret))["t"] == "cancel_ok"  # as of one that never was
        record = f"{{p:default}}req:{attack.site.tenant}:{secret}"
        redis: Any = attack.site.redis
        assert await redis.hget(record, "control") == b"0"
        await attack.worker.delete(attack.record(secret))
        await attack.worker.hset(attack.record(secret), mapping=theirs)
        async with attack.site.welcomed() as other:
            assert (await answer(other, "attach", secret, o=0))["t"] == "attached"


async def test_nobody_is_led_to_another_pool(attack: DirectoryAttack):
    """A record with another pool in it is unknown, to its owner too."""
    async with attack.site.welcomed() as victim, attack.site.welcomed() as other:
        secret = await sent(attack, victim, "secret")
        await attack.worker.hset(attack.record(secret), "pool", "evil")
        told = await answer(other, "attach", secret, o=0)
        assert told == await answer(other, "attach", uuid7(now_ms()), o=0)


async def test_who_takes_an_id_over_reads_nothing_under_it(attack: DirectoryAttack, redis: Redis):
    """The worker deletes the victim's record, and the other one is admitted under the id, with a good seal:
    what the pool has under it was asked for in other words."""
    async with attack.site.welcomed() as victim, attack.site.welcomed(attack.accomplice) as thief:
        secret, own = await sent(attack, victim, "secret"), await sent(attack, thief, "own")
        await attack.worker.delete(attack.record(secret))
        assert (await answer(thief, "send", secret, content="own"))["code"] == "id_conflict"
        settings = attack.site.settings
        bindings = Bindings(settings.keyring, settings.installation)
        record = await attack.worker.hgetall(attack.record(own))
        sealed = {**record, b"seal": bindings.seal(attack.site.tenant, secret, record)}
        await attack.worker.delete(attack.record(secret))
        await attack.worker.hset(attack.record(secret), mapping=sealed)
        told = await answer(thief, "attach", secret, o=0)
        assert told == await answer(thief, "attach", uuid7(now_ms()), o=0)


@pytest.fixture
def quota(redis: Redis, settings: Settings) -> Quota:
    """A gateway's."""
    return Quota(redis, settings, bindings=Bindings(Keyring(OLD), "parley"))


def test_every_sealed_fact_is_tried():
    """A new one has to be forged here too."""
    assert set(FORGED) == set(FACTS)


@pytest.mark.parametrize("name", FACTS, ids=lambda name: name.decode())
async def test_no_fact_of_a_record_can_be_changed(quota: Quota, redis: Redis, name: bytes):
    """It is unknown to who looks it up or cancels, and a conflict to who sends it again: by its prices a
    gateway would seal what is billed."""
    client: Any = redis
    assert isinstance(await quota.admit(an_admission()), Admitted)
    assert await quota.directory("t1", "r1") is not None
    before = await client.hget(RQ, name)
    await client.hset(RQ, name, FORGED[name])
    assert await quota.directory("t1", "r1") is None
    assert await quota.mark_cancel("t1", "r1", Canceller()) is None
    again = await quota.admit(an_admission())
    assert isinstance(again, Refusal)
    assert again.code == "id_conflict"
    await (client.hdel(RQ, name) if before is None else client.hset(RQ, name, before))
    again = await quota.admit(an_admission())
    assert isinstance(again, Admitted)
    assert (again.dup, again.state) == (True, AdmissionState.OPEN)


@pytest.mark.parametrize("fields", [{"state": "x"}, {"granted": "x"}, {"admitted": ""}], ids=str)
async def test_what_is_in_no_seal_breaks_nothing(quota: Quota, redis: Redis, fields: Any):
    """It is unknown then, also to who sends it again; and it hides no other request of the tenant from who
    looks at all."""
    await quota.admit(an_admission())
    await quota.admit(an_admission(id="r2"))
    await redis.hset(RQ, mapping=fields)
    assert await quota.directory("t1", "r1") is None
    again = await quota.admit(an_admission())
    assert isinstance(again, Admitted) or again.code == "id_conflict"
    assert "r2" in {hold.id for hold in await quota.holds("t1")}


@pytest.mark.parametrize("name", ["pool", "project", "by", "user"])
async def test_closing_somebody_is_stopped_by_no_record(quota: Quota, redis: Redis, name: str):
    """What cannot be read is of nobody, or nowhere, and the others are found."""
    client: Any = redis
    for id, spoil in (("r1", b"\xff"), ("r2", None), ("r3", b"fine")):
        await quota.admit(an_admission(id=id))
        key = RQ.replace("r1", id)
        await (client.hdel(key, name) if spoil is None else client.hset(key, name, spoil))
    await quota.admit(an_admission(id="r4"))
    assert "r4" in {id for id, _ in await open_of(redis, OwnerFilter("t1"))}


async def test_a_seal_is_for_one_request_of_one_installation(quota: Quota, redis: Redis, settings: Settings):
    """The same record under another id or tenant is none."""
    client: Any = redis
    await quota.admit(an_admission())
    record = await client.hgetall(RQ)
    for tenant, id in (("t1", "r2"), ("t2", "r1")):
        await client.hset(f"{{t:{tenant}}}rq:{id}", mapping=record)
        assert await quota.directory(tenant, id) is None
    other = Quota(redis, settings, bindings=Bindings(Keyring(OLD), "other"))
    assert await other.directory("t1", "r1") is None


async def test_a_move_seals_anew(quota: Quota, redis: Redis, settings: Settings):
    """What is bound by a good seal, and nothing else; an earlier move that comes late changes nothing."""
    client: Any = redis
    await quota.admit(an_admission())
    before = await client.hgetall(RQ)
    assert await quota.rebind("t1", "r1", "B", 1) == "B"
    assert await quota.rebind("t1", "r1", "C", 1) == "B"
    found = await quota.directory("t1", "r1")
    assert found is not None
    assert found.pool == "B"
    await client.hset(RQ, "user", "u2")
    await quota.rebind("t1", "r1", "D", 2)
    assert await quota.directory("t1", "r1") is None
    await client.delete(RQ)
    await client.hset(RQ, mapping=before)  # a worker kept it
    assert not await Quota(redis, settings, bindings=Bindings(Keyring(NEW), "parley")).is_sealed_alike(
        "t1", "r1"
    )
    assert await quota.is_sealed_alike("t1", "r1")


async def test_what_has_no_seal_is_unknown_and_gets_none(quota: Quota, redis: Redis, settings: Settings):
    """Nobody seals what he has not seen admitted, a move neither."""
    await Quota(redis, settings).admit(an_admission())
    assert await quota.directory("t1", "r1") is None
    await quota.rebind("t1", "r1", "B", 1)
    assert await redis.hget(RQ, "seal") is None
    assert await quota.directory("t1", "r1") is None


def test_a_secret_that_is_being_changed_opens_and_seals_nothing_new():
    """And one that was taken out opens nothing."""
    record = record_of(an_admission())
    old, both, new = (Bindings(Keyring(*keys), "i") for keys in ((OLD,), (NEW, OLD), (NEW,)))
    by_old = {**record, b"seal": old.seal("t1", "r1", record)}
    assert both.good("t1", "r1", by_old)
    assert not new.good("t1", "r1", by_old)
    assert both.seal("t1", "r1", record) == new.seal("t1", "r1", record)
    assert Keyring(OLD).key(PURPOSE) not in (OLD, NEW)
