"""What a real gateway tells of its connections and of readers that fall behind, when somebody asks."""

import pytest

from billing.api import OperationActor, Stores, create_tenant, local_actor
from billing.unit_of_work.perform import answer_of
from core.actor import Author
from core.operations import Role
from core.redis.connection_ends import ends_key, last_ends
from core.redis.gateway_questions import UNHEARD_MAX, ReaderFacts, ask_gateways
from engine.operations import connections, requests
from engine.operations.connections import ConnectionPage, ListConnections, OpenOrEnded
from engine.operations.pool_questions import NameRequest
from engine.operations.requests import ShownRequest
from server.connection.end_log import cause_of
from server.protocol.codes import CloseCode
from tests.server.site import Site
from tests.support.patience import wait_until

AGENT = {"name": "parley-js", "version": "1.2"}
WINDOW = 4


def stores_of(gateway: Site) -> Stores:
    """Its stores, as a console has them."""
    return Stores(gateway.settings, gateway.database, lambda: gateway.redis)


def developer(gateway: Site) -> OperationActor:
    """Somebody of its tenant."""
    return OperationActor(Author("Mia", "api"), Role.DEVELOPER, tenant=gateway.tenant)


async def shown(gateway: Site, id: str, who: OperationActor | None = None) -> ShownRequest:
    """The request, with its readers."""
    ask = NameRequest(request=id, tenant=gateway.tenant)
    return await answer_of(requests.show_request, stores_of(gateway), who or local_actor(), ask)


async def listed(gateway: Site, who: OperationActor | None = None, **asked: object) -> ConnectionPage:
    """Connections of its tenant."""
    ask = ListConnections(tenant=gateway.tenant, **asked)  # pyright: ignore[reportArgumentType]
    return await answer_of(connections.list_connections, stores_of(gateway), who or local_actor(), ask)


async def test_a_paused_reader_is_told_with_its_window_and_since_when(gateway: Site) -> None:
    """One that acknowledges nothing has its window full, and is paused since it shut; another one of the same
    request reads on beside it. A member sees both, and no gateway."""
    async with (
        gateway.welcomed(agent=AGENT, window={"events": WINDOW}) as slow,
        gateway.welcomed() as quick,
        gateway.answering("many words " * 40, step_seconds=0.02),
    ):
        id = await slow.send()
        accepted = await slow.hear("accepted")
        await quick.tell("attach", id=id, o=0)
        await slow.hear("event", k="paused")
        found = await shown(gateway, id)
        by_connection = {each.connection: each for each in found.readers}
        paused = by_connection[slow.welcome["connection"]]
        other = by_connection[quick.welcome["connection"]]
        assert (paused.state, paused.client, paused.window_events) == ("paused", "parley-js 1.2", WINDOW)
        assert (paused.unacked_events, paused.acked, paused.sent) == (WINDOW, 0, WINDOW)
        assert 0 < paused.unacked_bytes <= paused.window_bytes
        assert paused.since_ms < paused.paused_since_ms <= found.request.now_ms
        assert paused.behind >= WINDOW
        assert paused.stuck_since_ms == 0
        assert (other.state, other.paused_since_ms, other.client) == ("reading", 0, "")
        assert {paused.gateway, other.gateway} == found.request.readers.keys()
        assert found.unheard == []
        of_a_member = await shown(gateway, id, developer(gateway))
        assert {each.gateway for each in of_a_member.readers} == {""}
        await slow.tell("ack", a=[[accepted["g"], WINDOW]])
        await slow.hear("event", k="unpaused")
        now = await shown(gateway, id)
        assert _of(now, slow.welcome["connection"]).paused_since_ms != paused.paused_since_ms
        await quick.tell("cancel", id=id)
        await quick.hear("end")


def _of(found: ShownRequest, connection: str) -> ReaderFacts:
    return next(each for each in found.readers if each.connection == connection)


async def test_a_gateway_that_does_not_answer_is_named(gateway: Site) -> None:
    """What the others tell is there all the same; nothing is asked where nobody reads."""
    async with gateway.welcomed() as peer, gateway.answering("word " * 100, step_seconds=0.02):
        id = await peer.send()
        await peer.hear("delta")
        readers = (await shown(gateway, id)).request.readers
        told = await ask_gateways(gateway.redis, {*readers, "dead"}, gateway.tenant, request=id)
        assert ([each.gateway for each in told.readers], told.unheard) == ([*readers], ["dead"])
        nobody = await ask_gateways(gateway.redis, [], gateway.tenant, request=id)
        assert (nobody.readers, nobody.unheard) == ([], [])


async def test_connections_are_listed_with_the_cause_of_each_end(gateway: Site) -> None:
    """A client that goes, one that says bye, one that another superseded; and the session goes on."""
    async with gateway.welcomed(agent=AGENT) as first:
        (row,) = (await listed(gateway)).items
        assert (row.connection, row.state) == (first.welcome["connection"], OpenOrEnded.OPEN)
        assert (row.client, row.protocol, row.key, row.before) == (
            "parley-js 1.2", "parley.v1.json", gateway.key_id, None,
        )  # fmt: skip
        resume = {"token": first.welcome["resume_token"], "requests": []}
        async with gateway.welcomed(resume=resume) as second:
            await first.closed()
            await wait_until(lambda: _ended(gateway, 1))
            open_one, ended = (await listed(gateway)).items
            assert (open_one.session, ended.session) == (ended.session, first.welcome["session"])
            assert (ended.cause, ended.code) == ("superseded", CloseCode.SUPERSEDED)
            assert open_one.before is not None
            assert open_one.before.cause == "superseded"
            await second.tell("bye")
            await second.closed()
    async with gateway.welcomed():
        pass
    await wait_until(lambda: _ended(gateway, 3))
    ended = await listed(gateway, state=OpenOrEnded.ENDED)
    assert [each.cause for each in ended.items] == ["client_closed", "bye", "superseded"]
    assert all(each.ended and each.since for each in ended.items)
    first_page = await listed(gateway, limit=2)
    rest = await listed(gateway, limit=2, after=first_page.next)
    assert [each.connection for each in (*first_page.items, *rest.items)] == [
        each.connection for each in ended.items
    ]
    assert rest.next is None
    assert 0 < await gateway.redis.pttl(ends_key(gateway.tenant)) <= 86_400_000


async def _ended(gateway: Site, number: int) -> bool:
    return len(await last_ends(gateway.redis, gateway.tenant)) == number


async def test_connections_of_another_tenant_do_not_exist(gateway: Site) -> None:
    """Neither in its list nor by its name, to a member; a user's are those of that user alone."""
    other = (await create_tenant(gateway.database, "other")).tenant_id
    async with gateway.welcomed(), gateway.welcomed(await gateway.foreign_key()):
        rows = (await listed(gateway, developer(gateway))).items
        assert [(each.key, each.gateway) for each in rows] == [(gateway.key_id, "")]
        with pytest.raises(Exception, match="there is no user"):
            await listed(gateway, user="nobody")
        ask = ListConnections(tenant=other)
        assert (
            await answer_of(connections.list_connections, stores_of(gateway), local_actor(), ask)
        ).items == []
        with pytest.raises(Exception, match="there is no tenant"):
            await answer_of(connections.list_connections, stores_of(gateway), developer(gateway), ask)


@pytest.mark.parametrize(
    ("ours", "peers", "cause"),
    [
        (CloseCode.NORMAL, None, ("bye", 1000)),
        (CloseCode.SLOW, 1006, ("slow", 4008)),
        (None, 1000, ("client_closed", 1000)),
        (None, 1001, ("client_left", 1001)),
        (None, 3000, ("client_closed", 3000)),
        (None, 1006, ("lost", 0)),
        (None, None, ("lost", 0)),
    ],
)
def test_a_cause_is_ours_else_the_clients(
    ours: CloseCode | None, peers: int | None, cause: tuple[str, int]
) -> None:
    """A close that we sent counts before what the client sent; an end without a frame is a lost one."""
    assert cause_of(ours, peers) == cause


async def test_gateways_that_there_are_not_make_no_long_answer(gateway: Site) -> None:
    """A worker may have written their names: some are named."""
    told = await ask_gateways(gateway.redis, [f"g{at}" for at in range(10_000)], gateway.tenant)
    assert len(told.unheard) == UNHEARD_MAX
