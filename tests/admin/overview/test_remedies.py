"""What the overview says would help: at most three things, best first, each with its command."""

from admin.overview.answer import OverviewRemedy, RemedyTarget
from admin.overview.check_lights import lights_of
from admin.overview.facts import OverviewFacts
from admin.overview.remedies import remedies_of
from billing.reconciliation.comparison import Check, Comparison
from billing.reconciliation.tenant_keys import EndedStreams
from tests.admin.overview.platforms import NOW_MS, a_platform, a_pool, a_worker, compared, noisy, waiting

FULL = a_pool("eu-1", [a_worker(running=16)], waiting(37), running={"t1": 9, "t3": 7})
OWN = a_pool("acme-1", [a_worker("w9", running=8)])


def helps(facts: OverviewFacts) -> list[OverviewRemedy]:
    """The remedies."""
    return remedies_of(facts, lights_of(facts.sql.compared, facts.now_ms, facts.names))


def leads(facts: OverviewFacts) -> list[str]:
    """Their first words."""
    return [each.lead for each in helps(facts)]


def test_a_full_pool_is_relieved_of_who_has_a_pool_of_their_own() -> None:
    """Then of who takes more than their share; then it gets a worker."""
    move, throttle, add = helps(a_platform(FULL, OWN, owners={"acme-1": "t1"}, noisy=[noisy()]))
    assert move == OverviewRemedy(
        "Move acme out of eu-1.",
        "8 of its 9 streams fit into acme-1, which has 8 free slots.",
        move.action.MOVE_TENANT,
        RemedyTarget("eu-1", "acme", "acme-1"),
        "parley pools move eu-1 --tenant acme --to acme-1",
    )
    assert (throttle.lead, throttle.text) == (
        "Throttle initech.",
        "It takes 43 % of eu-1, its fair share is 14 %.",
    )
    assert throttle.command.startswith("parley noisy accept f1")
    assert (add.lead, add.text) == ("Add a worker to eu-1.", "All 16 slots of eu-1 are taken.")


def test_nobody_moves_where_they_may_not_or_cannot_go_on() -> None:
    """Another's pool, one that runs another model, one without room, and the pool itself are no way out."""
    other = a_pool("acme-1", [a_worker("w9", fingerprint="other")])
    full = a_pool("acme-1", [a_worker("w9", running=16)])
    for pool, owners in ((OWN, {"acme-1": "t2"}), (other, {}), (full, {})):
        assert leads(a_platform(FULL, pool, owners=owners)) == ["Add a worker to eu-1."]
    shared = helps(a_platform(FULL, OWN))[0]
    assert (shared.lead, shared.text) == (
        "Move acme out of eu-1.",
        "8 of its 9 streams fit into acme-1, which has 8 free slots.",
    )


def test_only_the_requests_move_of_a_tenant_that_would_be_sent_back() -> None:
    """Who pays for the full pool, or for a third one, is not moved: its new requests would not follow."""
    for own in ("eu-1", "acme-2"):
        move = helps(a_platform(FULL, OWN, owners={own: "t1"}))[0]
        assert move.command == "parley requests migrate --all --tenant acme --from-pool eu-1 --to acme-1"


def test_a_lost_worker_is_looked_at_and_one_that_starts_is_waited_for() -> None:
    """No other is asked for while one starts."""
    lost, starting = a_worker("w5", "sick", node="gpu-05"), a_worker("w8", "starting")
    broken = a_pool("eu-1", [a_worker(running=16), lost, starting], waiting(37))
    (only,) = helps(a_platform(broken))
    assert (only.lead, only.text) == ("Look at w5 on gpu-05.", "It is lost: its GPU must not be used.")
    assert leads(a_platform(a_pool("eu-1", [], waiting(3)))) == ["Add a worker to eu-1."]
    assert leads(a_platform(a_pool("eu-1", [a_worker(), lost]))) == ["Look at w5 on gpu-05."]


def test_books_quarantine_and_a_missing_biller_have_their_commands() -> None:
    """A throttled tenant needs nothing more."""
    result = compared(Comparison(Check.R4, "t1", "cost", "nano", 0, 5))
    unread = EndedStreams((), 3, NOW_MS - 90_000)
    throttled = noisy(throttled_ms=NOW_MS, slots_max=3)
    found = helps(a_platform(OWN, result=result, quarantined=2, unread=unread, noisy=[throttled]))
    assert [each.command for each in found] == [
        "parley reconcile --check R4 --tenant acme",
        "parley quarantine list",
        "parley biller",
    ]
    assert found[1].text == "2 events are not billed until somebody decides."


def test_there_are_three_at_most_and_none_where_all_is_well() -> None:
    """The first three."""
    two = [noisy(), noisy("t2", "acme-1")]
    assert len(helps(a_platform(FULL, OWN, noisy=two, quarantined=1))) == 3
    assert helps(a_platform(OWN)) == []
