"""Moves that one person may not make alone, over the API: who proposes, who approves, what is booked."""

import asyncio
from typing import Any

import httpx
import pytest

from billing.approvals import proposals
from billing.audit.log import list_rows
from billing.people.memberships import end_membership, set_role
from billing.people.persons import close_person, find_member
from billing.people.service_tokens import create_token, revoke_token
from billing.tables.approvals import Proposal
from billing.tables.tenants import PLATFORM
from core.operations import Role
from tests.admin.api.conftest import ApiSite

USD = 10**9


class TwoPeople:
    """Ann, an owner, who proposes; Bob, of finance, who may approve; and a tenant."""

    def __init__(self, site: ApiSite, ann: httpx.AsyncClient, bob: httpx.AsyncClient, tenant: str) -> None:
        self.site, self.ann, self.bob, self.tenant = site, ann, bob, tenant

    async def grants(
        self, key: str = "g1", dollars: int = 300, call: str = "", reason: str = "contract 9"
    ) -> httpx.Response:
        """A grant that Ann makes, or proposes."""
        ask = {"amount": {"nano": str(dollars * USD)}, "key": key, "reason": reason}
        headers = {"idempotency-key": call} if call else {}
        return await self.ann.post(f"/api/tenants/{self.tenant}/wallet/grants", json=ask, headers=headers)

    async def proposed(self, key: str = "g1", dollars: int = 300) -> str:
        """The proposal that a large grant became."""
        reply = await self.grants(key, dollars)
        assert reply.status_code == 202, reply.text
        return reply.json()["proposal"]

    async def wallet(self) -> int:
        """What the tenant has, in nano."""
        found = (await self.ann.get("/api/wallets")).json()["items"]
        return sum(int(each["left"]["nano"]) for each in found)

    async def state(self, proposal: str) -> dict[str, Any]:
        """What is kept of a proposal."""
        found = (await self.ann.get("/api/approvals?ended=true")).json()["items"]
        (row,) = [each for each in found if each["proposal"] == proposal]
        return row

    async def audited(self) -> list[tuple[str, str]]:
        """Actions on the tenant, and whose they were."""
        return [(row.action, row.author) for row in await list_rows(self.site.database, self.tenant)]


async def approve(browser: httpx.AsyncClient, proposal: str, **headers: str) -> httpx.Response:
    """The call."""
    return await browser.post(f"/api/approvals/{proposal}/approve", json={"reason": "seen"}, headers=headers)


async def refused(browser: httpx.AsyncClient, proposal: str, status: int, says: str) -> None:
    """The call is refused so."""
    reply = await approve(browser, proposal)
    assert (reply.status_code, says in reply.json()["detail"]) == (status, True), reply.text


@pytest.fixture
async def two(site: ApiSite) -> TwoPeople:
    """On SQLite and on Postgres."""
    ann = await site.signed_in(Role.OWNER, name="Ann")
    bob = await site.signed_in(Role.FINANCE, name="Bob")
    made = await ann.post("/api/tenants", json={"name": "acme", "reason": "r"})
    return TwoPeople(site, ann, bob, made.json()["tenant"])


async def test_a_large_move_waits_for_a_second_person(two: TwoPeople) -> None:
    """It is accepted, and nothing moves; another person's session books it, and the log has both."""
    reply = await two.grants()
    waits = reply.json()
    assert (reply.status_code, waits["state"], waits["expires"] is not None) == (202, "waiting", True)
    assert waits["amount"] == {"nano": str(300 * USD), "currency": "USD"}
    assert waits["see"] == {"operation": "approvals.list", "method": "GET", "path": reply.headers["location"]}
    assert await two.wallet() == 0
    (listed,) = (await two.bob.get(reply.headers["location"])).json()["items"]
    assert (listed["proposal"], listed["author"]) == (waits["proposal"], "Ann")
    paths = (await two.bob.get("/openapi.json")).json()["paths"]
    later = paths["/api/tenants/{tenant}/wallet/grants"]["post"]["responses"]["202"]
    assert later["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/WaitingMove"}
    assert later["headers"]["Location"]["required"]
    done = await approve(two.bob, waits["proposal"])
    assert (done.status_code, done.json()["state"]) == (200, "booked"), done.text
    assert await two.wallet() == 300 * USD
    audited = await two.audited()
    assert {("proposal.make", "Ann"), ("wallet.grant", "Ann"), ("proposal.approve", "Bob")} <= {*audited}
    await refused(two.bob, waits["proposal"], 400, "it is booked")


async def test_one_key_makes_one_proposal(two: TwoPeople) -> None:
    """Eight calls at once and one later get the same answer; another call under the key is refused."""
    replies = await asyncio.gather(*[two.grants(call="k1") for _ in range(8)])
    replies.append(await two.grants(call="k1"))
    assert {each.status_code for each in replies} == {202}
    assert len({each.json()["proposal"] for each in replies}) == 1
    assert sum(each.headers.get("idempotency-replayed") == "true" for each in replies) == 8
    assert len((await two.ann.get("/api/approvals")).json()["items"]) == 1
    assert (await two.grants("g2", call="k1")).status_code == 422


async def test_a_dry_run_says_that_it_takes_two(two: TwoPeople) -> None:
    """And the proposal why: a small move counts with the others of the last 24 hours. Alone it is refused."""
    path = f"/api/tenants/{two.tenant}/wallet/grants?dry_run=true"

    async def needs(dollars: int) -> str | None:
        ask = {"amount": {"nano": str(dollars * USD)}, "key": "g2", "reason": "contract 9"}
        return (await two.ann.post(path, json=ask)).headers.get("x-parley-second-person")

    assert [await needs(dollars) for dollars in (100, 101)] == [None, "needed"]
    assert (await two.grants("g1", 100)).status_code == 200
    assert await needs(1) == "needed"
    why = (await two.grants("g2", 1)).json()["why"]
    assert why.startswith("this moves $1.00, $101.00 with the last 24 hours' moves"), why
    bob = await find_member(two.site.database, PLATFORM, "Bob")
    await close_person(two.site.database, bob.person.id)
    assert [await needs(dollars) for dollars in (100, 101)] == [None, "missing"]


async def test_the_same_grant_waits_once(two: TwoPeople) -> None:
    """Its key is that of one grant, also while it waits; another grant waits beside it."""
    first = await two.proposed()
    assert await two.proposed() == first
    assert (await two.grants(call="again")).json() == (await two.grants(call="again")).json()
    assert await two.proposed("g2") != first
    assert len((await two.bob.get("/api/approvals")).json()["items"]) == 2


async def test_nobody_approves_their_own(two: TwoPeople) -> None:
    """Not who proposed it, no token of either, not who may not move money, nobody from the tenants' side."""
    proposal = await two.proposed()
    await refused(two.ann, proposal, 403, "somebody else approves")
    ann = (await find_member(two.site.database, PLATFORM, "Ann")).person.id
    for role, by in ((Role.FINANCE, ""), (Role.OWNER, ann)):
        _, secret = await create_token(two.site.database, PLATFORM, f"ci {role}", role, 1, by)
        script = await two.site.browser()
        script.headers["authorization"] = f"Bearer {secret}"
        await refused(script, proposal, 403, "signed in")
    for role in (Role.OPERATOR, Role.SUPPORT):
        other = await two.site.signed_in(role, name=role.value)
        await refused(other, proposal, 403, "your role")
    member = await two.site.signed_in(Role.ADMIN, two.tenant, name="Mia")
    assert (await approve(member, proposal)).status_code == 404
    assert (await two.state(proposal))["state"] == "waiting"
    assert await two.wallet() == 0


async def test_a_tokens_maker_does_not_approve_what_it_proposed(two: TwoPeople) -> None:
    """Somebody else does, and it is booked in the token's name; not once it is revoked."""
    db = two.site.database
    ann = (await find_member(db, PLATFORM, "Ann")).person.id
    token, secret = await create_token(db, PLATFORM, "ci", Role.OWNER, 1, ann)
    person, two.ann = two.ann, await two.site.browser()
    two.ann.headers["authorization"] = f"Bearer {secret}"
    first, second = await two.proposed("g1"), await two.proposed("g2")
    await refused(person, first, 403, "somebody else approves")
    assert (await approve(two.bob, first)).status_code == 200
    two.ann = person
    assert ("wallet.grant", "token ci") in await two.audited()
    await revoke_token(db, PLATFORM, token.id)
    await refused(two.bob, second, 400, "may do it no more")
    assert (await two.state(second))["state"] == "failed"


async def test_alone_it_stays_refused(site: ApiSite) -> None:
    """With one person who may move money there is nobody to propose to, whoever else there is."""
    ann = await site.signed_in()
    await site.signed_in(Role.OPERATOR, name="Otto")
    bob = await site.signed_in(Role.FINANCE, name="Bob")
    made = await ann.post("/api/tenants", json={"name": "acme", "reason": "r"})
    two = TwoPeople(site, ann, bob, made.json()["tenant"])
    gone = await find_member(site.database, PLATFORM, "Bob")
    await end_membership(site.database, PLATFORM, gone.person.id)
    reply = await two.grants()
    assert (reply.status_code, "second" in reply.json()["detail"]) == (400, True), reply.text
    assert (await ann.get("/api/approvals?ended=true")).json()["items"] == []
    assert (await two.grants(dollars=100)).status_code == 200


async def test_approved_at_once_it_is_booked_once(two: TwoPeople) -> None:
    """By eight, two people and a repeated key among them."""
    cid = await two.site.signed_in(Role.OWNER, name="Cid")
    proposal = await two.proposed()
    replies = await asyncio.gather(*[approve((two.bob, cid)[n % 2], proposal) for n in range(8)])
    assert sorted(each.status_code for each in replies) == [200] + [400] * 7
    assert {each.json()["detail"] for each in replies if each.status_code == 400} == {
        "the proposal does not wait any more: it is booked"
    }
    assert await two.wallet() == 300 * USD
    assert [action for action, _ in await two.audited()].count("proposal.approve") == 1
    again, key = await two.proposed("g2"), {"idempotency-key": "a1"}
    both = await asyncio.gather(*[approve(two.bob, again, **key) for _ in range(2)])
    assert [each.status_code for each in both] == [200, 200]
    assert await two.wallet() == 600 * USD


async def test_half_an_hour_later_it_is_over(two: TwoPeople, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the millisecond."""
    proposal = await two.proposed()
    ends_ms = await expires_ms(two, proposal)
    for at_ms, status in ((ends_ms, 400), (ends_ms - 1, 200)):
        monkeypatch.setattr(proposals, "now_ms", lambda at_ms=at_ms: at_ms)
        reply = await approve(two.bob, proposal)
        assert reply.status_code == status, reply.text
    assert await two.wallet() == 300 * USD


async def expires_ms(two: TwoPeople, proposal: str) -> int:
    """When a proposal ends."""
    async with two.site.database.session() as session:
        return (await session.get_one(Proposal, (two.tenant, proposal))).expires_ms


@pytest.mark.parametrize("how", ["closed", "removed", "another role"])
async def test_who_may_do_it_no_more_has_proposed_nothing(two: TwoPeople, how: str) -> None:
    """The proposer is closed, removed or another's now: it is not booked, and kept as failed."""
    db, cid = two.site.database, await two.site.signed_in(Role.OWNER, name="Cid")
    proposal, person = await two.proposed(), (await find_member(db, PLATFORM, "Ann")).person.id
    two.ann = cid
    if how == "closed":
        await close_person(db, person)
    elif how == "removed":
        await end_membership(db, PLATFORM, person)
    else:
        await set_role(db, PLATFORM, person, Role.SUPPORT)
    reply = await approve(two.bob, proposal)
    assert reply.status_code in (400, 403), reply.text
    row = await two.state(proposal)
    assert (row["state"], row["why"] != "") == ("failed", True)
    assert await two.wallet() == 0
    assert ("proposal.fail", "Bob") in await two.audited()


async def test_another_amount_than_was_proposed_is_not_booked(two: TwoPeople) -> None:
    """It was done under its key meanwhile, or would move another sum: it is over, and nothing moves."""
    first, other = await two.proposed("g1"), await two.proposed("g2")
    again = (await two.grants("g1", reason="contract 10")).json()["proposal"]
    assert (await approve(two.bob, first)).status_code == 200
    await refused(two.bob, again, 400, "done before")
    async with two.site.database.transaction() as session:
        row = await session.get_one(Proposal, (two.tenant, other))
        row.amount_nano -= 1
        session.add(row)
    await refused(two.bob, other, 400, "propose it again")
    assert [(await two.state(each))["state"] for each in (first, again, other)] == [
        "booked",
        "failed",
        "failed",
    ]
    assert await two.wallet() == 300 * USD


async def test_a_dry_run_of_approving_changes_nothing(two: TwoPeople) -> None:
    """It says what it would do; and one that would be refused still waits."""
    proposal = await two.proposed()
    reply = await two.bob.post(f"/api/approvals/{proposal}/approve?dry_run=true")
    assert (reply.status_code, reply.headers["x-parley-dry-run"]) == (200, "true")
    assert ((await two.state(proposal))["state"], await two.wallet()) == ("waiting", 0)
    assert (await approve(two.bob, proposal)).status_code == 200
