"""The session machine where a limit is met exactly, a wish comes twice, or the client is wrong."""

# A line of a play is an expression for its effect.
# pyright: reportUnusedExpression=false

from dataclasses import replace

import pytest

from core.errors import Refusal
from engine.api import Entry, EntryKind
from server.protocol import messages as m
from server.protocol.codes import CloseCode, ErrorCode, refusal
from server.session import effects as fx
from server.session import events as ev
from server.session.machine import SessionState
from tests.server.playbook import (
    LIMITS,
    Playbook,
    delta,
    end,
    open_session,
    opened,
    reading_one,
    text,
    texts,
)

KIB = 1024
NO = refusal(ErrorCode.NOT_RESUMABLE, "nobody knows this request")
TWO = replace(LIMITS, requests=2)
TOO_MANY = "this connection has 2 requests already: acknowledge an end, or detach one, first"


def full(re: str, id: str) -> m.Error:
    """The refusal of a connection that reads two."""
    return m.Error("rate_limited", TOO_MANY, True, re, id, 1000, scope="connection", limit=2)


def hello() -> m.Hello:
    """A good one."""
    return m.Hello(v=1)


# Opening


def test_a_welcome_lists_what_is_read_what_is_gone_and_what_has_no_place():
    """What has no place is attached by the client when it has one."""
    play = Playbook(TWO)
    play >> hello() << fx.OpenSession(hello())
    play >> opened(
        ev.ReadableRequest("a", 1, 3, 3, "running"),
        ev.NotResumed("b", "forbidden"),
        ev.ReadableRequest("c", 2, 4, 9, "ended", "text"),
        ev.ReadableRequest("d", 5, 6, 7, "queued"),
        resumed=True,
    )
    welcome = play.message(m.Welcome)
    assert welcome.requests == [
        m.WelcomeRequest("a", "running", g=1, epoch=1, from_=4, head=3),
        m.WelcomeRequest("b", "gone", why="forbidden"),
        m.WelcomeRequest("c", "ended", g=2, epoch=2, from_=5, head=9),
        m.WelcomeRequest("d", "queued", epoch=5, head=7),
    ]
    assert (welcome.resumed, play.session.resumed) == ("partial", "partial")
    play << fx.Follow("a") << fx.Follow("c") << m.Snap(2, 2, 4, "text")
    play << fx.ReadLog("c", 2, 4, 256, 32 * KIB - 4)
    assert play.measured == [fx.Measure(fx.MeasureKind.REPLAYED_EVENTS, 5)]


def test_a_welcome_to_what_was_not_resumed_says_so():
    """Whatever is listed."""
    play = Playbook()
    play >> hello() >> opened(ev.NotResumed("r", "forbidden"))
    play << fx.OpenSession(hello())
    assert play.message(m.Welcome).resumed == "none"


def test_the_first_frame_alone_confirms_the_resume_token():
    """The client has the welcome then."""
    play = open_session()
    play >> m.Ping(1) << fx.ConfirmResumeToken() << m.ServerPong(1)
    play >> m.Ping(2) << m.ServerPong(2)


def test_a_second_hello_is_bad_and_closes_nothing():
    """While the first is looked at, and after it."""
    play = Playbook()
    play >> hello() << fx.OpenSession(hello())
    play >> hello() << m.Error("bad_message", "hello was said already", False, "hello")
    play >> opened()
    play.message(m.Welcome)
    play >> hello() << fx.ConfirmResumeToken()
    play << m.Error("bad_message", "hello was said already", False, "hello")
    assert play.session.state is SessionState.OPEN


# Access


SUSPENDED = refusal(ErrorCode.ACCOUNT_SUSPENDED, "closed for now")
WRONG = refusal(ErrorCode.UNAUTHORIZED, "who?")
LATER = refusal(ErrorCode.OVERLOADED, "ask again", after_ms=5)


@pytest.mark.parametrize(
    ("refused", "then"),
    [
        (SUSPENDED, [fx.Close(CloseCode.SUSPENDED)]),
        (WRONG, [fx.Close(CloseCode.AUTH_INVALID)]),
        (LATER, []),
    ],
    ids=["suspended", "wrong", "later"],
)
def test_a_wrong_token_ends_the_session_and_one_not_looked_at_may_be_shown_again(
    refused: Refusal, then: list[fx.Effect]
):
    """The close says which it was."""
    play = open_session()
    play >> ev.AuthRefused(refused)
    error = play.message(m.Error)
    assert (error.code, error.re, error.after_ms) == (refused.code, "auth", refused.after_ms)
    for effect in then:
        play << effect


def test_access_that_was_changed_elsewhere_ends_then():
    """The client is asked for a fresh token a minute before; nothing is said at once."""
    play = open_session(limits=replace(LIMITS, heartbeat_interval=10_000.0))
    play >> ev.AccessChanged(100_000)
    play.nothing().fire() << m.AuthRequired(60_000)
    assert play.now == 40.0
    play >> ev.AccessChanged(None)
    play.nothing()
    assert (play.session.deadline() or 0) > 1_000


@pytest.mark.parametrize("why", [None, WRONG], ids=["without words", "with words"])
def test_what_ends_a_connection_from_outside_may_say_why(why: Refusal | None):
    """Its readings end with it."""
    play = reading_one()
    play >> ev.CloseOrdered(CloseCode.SUPERSEDED, why)
    if why is not None:
        play << m.Error("unauthorized", "who?", False)
    play << fx.Unfollow("r", done=False) << fx.Close(CloseCode.SUPERSEDED)
    assert play.session.close_code is CloseCode.SUPERSEDED


def test_a_second_drain_closes_at_once():
    """The first asked."""
    play = open_session()
    play >> ev.DrainStarted(5_000) << m.GoAway("drain", 5_000)
    assert play.session.state is SessionState.DRAINING
    play >> ev.DrainStarted(5_000) << fx.Close(CloseCode.DRAIN)


# Heartbeat


def test_a_message_counts_as_life():
    """The next ping comes in place of the close; it says the time in milliseconds."""
    play = open_session()
    ping = play.fire().message(m.ServerPing)
    assert ping.ts == int(play.now * 1000)
    play.at(play.now + 9.9) >> m.Pong(ping.ts) << fx.ConfirmResumeToken()
    play.fire().message(m.ServerPing)


# Places


def test_a_send_that_is_known_needs_no_place():
    """One that is under way, and one that is read; any other is refused, and counts for nothing."""
    play = reading_one(limits=TWO)
    send, other = m.Send("s", content="x"), m.Send("t", content="x")
    play >> send << fx.StartSend(send)
    play >> other << full("send", "t")
    play >> send << fx.StartSend(send)
    play >> m.Send("r", content="x") << fx.StartSend(m.Send("r", content="x"))
    play >> ev.SendRefused("s", NO) << m.Error(NO.code, NO.message, False, "send", "s")
    play >> other << full("send", "t")
    play >> ev.SendRefused("s", NO) << m.Error(NO.code, NO.message, False, "send", "s")
    play >> other << fx.StartSend(other)


def test_an_attach_that_is_known_needs_no_place():
    """As with sends."""
    play = reading_one(limits=TWO)
    send = m.Send("s", content="x")
    play >> m.Attach("t", 0) << fx.StartAttach("t", None, 0)
    play >> send << fx.StartSend(send)
    play >> m.Attach("u", 0) << full("attach", "u")
    play >> m.Attach("r", 0) << fx.StartAttach("r", None, 0)
    play >> m.Attach("s", 0) << fx.StartAttach("s", None, 0)
    play >> ev.AttachAllowed(ev.ReadableRequest("t", 1, 0, 0, "running")) << full("attach", "t")
    play >> ev.AttachAllowed(ev.ReadableRequest("r", 1, 0, 0, "running"))
    play << m.Attached(1, "r", 1, 1, 0, "running") << fx.Follow("r")
    play >> ev.AttachAllowed(ev.ReadableRequest("s", 1, 0, 0, "queued"))
    play << m.Attached(2, "s", 1, 1, 0, "queued") << fx.Follow("s")


def test_each_send_under_way_is_counted_once():
    """Of three places one is read, and two are waited for."""
    play = reading_one(limits=replace(LIMITS, requests=3))
    for id in ("s", "t"):
        play >> m.Send(id, content="x") << fx.StartSend(m.Send(id, content="x"))
    play >> m.Send("u", content="x")
    assert play.message(m.Error).limit == 3


def test_each_attach_is_counted_by_what_is_read():
    """Two are read: a third is refused at once."""
    play = reading_one(limits=TWO)
    play >> ev.AttachAllowed(ev.ReadableRequest("s", 1, 0, 0, "running"))
    play << m.Attached(2, "s", 1, 1, 0, "running") << fx.Follow("s")
    play >> m.Attach("t", 0) << full("attach", "t")


def test_a_refused_attach_that_was_asked_for_says_so():
    """Where nothing is read yet, nothing is left."""
    play = open_session()
    play >> m.Attach("r", 0) << fx.ConfirmResumeToken() << fx.StartAttach("r", None, 0)
    play >> ev.AttachRefused("r", NO) << m.Error(NO.code, NO.message, False, "attach", "r")


def test_what_is_not_read_any_more_is_not_gone_on_with():
    """The log was replaced, and the client had left."""
    play = open_session()
    play >> ev.AttachAllowed(ev.ReadableRequest("r", 1, 0, 0, "running"), asked=False)
    play >> ev.AttachRefused("r", NO, asked=False)
    play.nothing()


def test_a_cancel_of_what_is_read_is_done_at_once():
    """Also while the same send is under way again; before it was accepted, it waits."""
    play = reading_one()
    send = m.Send("r", content="hi")
    play >> send << fx.StartSend(send)
    play >> m.Cancel("r") << fx.StartCancel("r")
    play >> m.Cancel("s") << fx.StartCancel("s")
    play >> ev.CancelAnswered("r", "running") << m.CancelOk("r", "running")
    play >> ev.CancelRefused("s", NO) << m.Error(NO.code, NO.message, False, "cancel", "s")


def test_accepted_says_the_place_in_line():
    """The front, with no wait and no quota, where nothing else is known."""
    play = open_session()
    play >> m.Send("r", content="x")
    play >> ev.SendAccepted(ev.ReadableRequest("r", 4, 0, 0, "queued"), False, "batch")
    play >> m.Send("s", content="x")
    play >> ev.SendAccepted(ev.ReadableRequest("s", 4, 0, 0, "queued"), False, "batch", 3, 40)
    play << fx.ConfirmResumeToken() << fx.StartSend(m.Send("r", content="x"))
    play << m.Accepted("r", 1, 4, False, "batch", m.QueuePosition(0, 0)) << fx.Follow("r")
    play << fx.StartSend(m.Send("s", content="x"))
    play << m.Accepted("s", 2, 4, False, "batch", m.QueuePosition(3, 40)) << fx.Follow("s")


# Readings


def test_a_log_that_breaks_twice_is_looked_for_once():
    """And one that nobody reads is not looked for."""
    play = reading_one()
    play >> ev.LogBroken("r") << fx.Reopen("r", 1, 0)
    play >> ev.LogBroken("r") >> ev.LogBroken("stranger")
    play.nothing()


def test_a_detach_gives_the_connection_its_bytes_back():
    """And the others have a larger share of it."""
    play = reading_one(limits=replace(LIMITS, connection_bytes=120))
    for g, id in ((2, "s"), (3, "t")):
        play >> ev.AttachAllowed(ev.ReadableRequest(id, 1, 0, 0, "running"))
        play << m.Attached(g, id, 1, 1, 0, "running") << fx.Follow(id)
    play >> ev.LogGrew("r", texts(1, 4, "x" * 10), 4) << m.Delta(1, 1, 4, 0, "x" * 40, 4)
    assert play.session.in_flight() == 40
    play >> m.Detach("r") << fx.Unfollow("r", done=False)
    assert play.session.in_flight() == 0
    play >> ev.LogGrew("s", texts(1, 7, "y" * 10), 7) << m.Delta(2, 1, 6, 0, "y" * 60, 6)
    assert play.session.in_flight() == 60


def test_a_message_that_is_no_text_counts_64_bytes():
    """Until it is acknowledged."""
    play = reading_one()
    play >> ev.LogGrew("r", [Entry(1, EntryKind.MOVED, v=b"{}"), end(2)], 2)
    play << m.Event(1, "moved", 1, {})
    play.message(m.End)
    assert play.session.in_flight() == 128


def test_the_stream_that_is_due_first_sets_the_timer():
    """Whichever of them it is."""
    play = reading_one()
    play >> ev.AttachAllowed(ev.ReadableRequest("s", 1, 0, 0, "running"))
    play << m.Attached(2, "s", 1, 1, 0, "running") << fx.Follow("s")
    play >> ev.LogGrew("r", [text(1)], 1) << delta(1, 1, "a")
    play >> ev.LogGrew("r", [text(2)], 2)
    play.nothing()
    assert play.session.deadline() == pytest.approx(0.02)
    play.fire() << delta(2, 2, "a")


def test_what_comes_before_a_damaged_entry_is_sent():
    """Then the reading ends, with the reason for whoever looks after the logs."""
    play = reading_one()
    play >> ev.LogGrew("r", [text(1), Entry(2, EntryKind.END, v=b"{"), text(3)], 3) << delta(1, 1, "a")
    play << m.Error("log_lost", "the platform lost a part of this answer", False, id="r")
    left = play.effects.popleft()
    assert isinstance(left, fx.Unfollow)
    assert (left.id, left.done, bool(left.damaged)) == ("r", False, True)


def test_what_a_session_measures():
    """Lags as they were before each acknowledgement, replays where there are any, repairs one by one."""
    play = reading_one()
    play >> ev.LogGrew("r", texts(1, 5), 5) << delta(1, 5, "aaaaa")
    play >> m.Ack([(1, 2)]) >> m.Ack([(1, 5)])
    play >> m.Attach("r", 3) << fx.StartAttach("r", None, 3)
    play >> ev.AttachAllowed(ev.ReadableRequest("r", 1, 3, 5, "running"))
    play << m.Attached(1, "r", 1, 4, 5, "running") << fx.Follow("r") << fx.ReadLog("r", 1, 3, 256, 32 * KIB)
    assert [(each.what.value, each.value) for each in play.measured] == [
        ("ack_lag_events", 5),
        ("ack_lag_events", 3),
        ("gaps_repaired", 1),
        ("replayed_events", 2),
    ]


def test_a_request_without_room_asks_for_one_byte_at_least():
    """With nothing in flight one entry goes, however full the connection is."""
    play = reading_one(limits=replace(LIMITS, connection_bytes=10))
    play >> ev.AttachAllowed(ev.ReadableRequest("s", 1, 0, 0, "running"))
    play << m.Attached(2, "s", 1, 1, 0, "running") << fx.Follow("s")
    play >> ev.LogGrew("r", [text(1, "x" * 10)], 1) << m.Delta(1, 1, 1, 0, "x" * 10, 1)
    play >> ev.LogGrew("s", [], 1) << fx.ReadLog("s", 1, 0, 256, 1)


@pytest.mark.parametrize("key", ["r", "²", "1x", "", "1234567890", "-1"])
def test_a_window_of_what_is_no_g_is_bad_and_no_more(key: str):
    """However often; it says nothing of what was never sent."""
    play = reading_one()
    for _ in range(4):
        play >> m.Ack([], {key: 1}) << m.Error("bad_message", "w: a key is no g", False, "ack")
    assert play.session.state is SessionState.OPEN


@pytest.mark.parametrize("key", ["123456789", 1234567890])
def test_a_window_of_a_g_that_was_freed_is_nobodys(key: int | str):
    """It may have crossed the end."""
    play = reading_one()
    play >> m.Ack([], {key: 1})
    play.nothing()
