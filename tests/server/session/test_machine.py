"""The session machine, played event by event: no socket, no clock, no Redis."""

# A line of a play is an expression for its effect.
# pyright: reportUnusedExpression=false

from dataclasses import replace

import pytest

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

NO = refusal(ErrorCode.NOT_RESUMABLE, "nobody knows this request")


def test_a_client_that_says_nothing_is_closed():
    """The hello has 10 s."""
    play = Playbook()
    assert play.session.deadline() == 10.0
    play.at(9.9) >> ev.TimerFired()
    play.nothing().at(10.0) >> ev.TimerFired() << fx.Close(CloseCode.HELLO_TIMEOUT)
    assert play.session.state is SessionState.CLOSED


def test_nothing_follows_the_close():
    """A closed session answers no event."""
    play = Playbook()
    play >> ev.ConnectionLost()
    play >> m.Hello(v=1) >> opened() >> ev.TimerFired()
    play.nothing()
    assert play.session.deadline() is None


def test_a_refused_hello_closes_with_its_code():
    """The error says why, the code says whether to come back."""
    play = Playbook()
    play >> m.Hello(v=1) << fx.OpenSession(m.Hello(v=1))
    play >> ev.HelloRefused(refusal(ErrorCode.UNAUTHORIZED, "who?"), CloseCode.AUTH_INVALID)
    play << m.Error("unauthorized", "who?", False, "hello") << fx.Close(CloseCode.AUTH_INVALID)


def test_a_new_session_is_welcomed_with_its_limits():
    """The welcome names what the server keeps to."""
    play = Playbook()
    play >> m.Hello(v=1) >> opened()
    play.effects.popleft()
    welcome = play.message(m.Welcome)
    assert welcome.limits == m.WireLimits(256, 32768, 262144, 16, 131072)
    assert welcome.heartbeat == m.HeartbeatTimes(25_000, 10_000)
    assert (welcome.resumed, welcome.requests, welcome.now) == ("none", [], 7)


FOLLOWED = fx.Follow("r")
SNAPPED = fx.Emit(m.Snap(1, 2, 0, ""))


@pytest.mark.parametrize(
    ("request_", "resumed", "then"),
    [
        (ev.ReadableRequest("r", 1, 3, 5, "running"), "full", [FOLLOWED, fx.ReadLog("r", 1, 3, 256, 32768)]),
        (
            ev.ReadableRequest("r", 2, 0, 5, "running", ""),
            "partial",
            [FOLLOWED, SNAPPED, fx.ReadLog("r", 2, 0, 256, 32768)],
        ),
        (ev.NotResumed("r", "not_resumable"), "partial", []),
    ],
)
def test_a_resumed_session_says_how_much_of_it(
    request_: ev.ReadableRequest | ev.NotResumed, resumed: str, then: list[fx.Effect]
):
    """Full: all go on at o + 1; partial: some start again or are gone."""
    play = Playbook()
    play >> m.Hello(v=1) << fx.OpenSession(m.Hello(v=1)) >> opened(request_, resumed=True)
    assert play.message(m.Welcome).resumed == resumed
    for effect in then:
        play << effect


def test_a_resumed_reading_goes_on_at_the_next_offset():
    """Its part of the log is read after the offset that the client applied."""
    play = open_session(ev.ReadableRequest("r", 1, 3, 5, "running"))
    play << fx.Follow("r") << fx.ReadLog("r", 1, 3, 256, 32768)
    play >> ev.LogRead("r", 3, [text(4), text(5)]) << delta(4, 5, "aa")


def test_a_snap_comes_before_everything_else_of_its_request():
    """INV-19: Where the client's offsets mean nothing any more."""
    play = open_session(ev.ReadableRequest("r", 2, 4, 5, "ended", "hello"))
    play << fx.Follow("r") << m.Snap(1, 2, 4, "hello")
    play << fx.ReadLog("r", 2, 4, 256, 32768 - 5)


def test_accepted_comes_before_every_frame_of_its_g():
    """Then the log from its start, and news as they come."""
    play = reading_one(head=1)
    play << fx.ReadLog("r", 1, 0, 256, 32768)
    play >> ev.LogRead("r", 0, [text(1)]) << delta(1, 1, "a")
    play.at(1.0) >> ev.LogGrew("r", [text(2)], 2) << delta(2, 2, "a")


def test_news_with_a_gap_are_read_from_the_log():
    """INV-2: P3: what a client applies is a prefix of the log, whatever hints got lost."""
    play = reading_one()
    play >> ev.LogGrew("r", [text(3)], 3) << fx.ReadLog("r", 1, 0, 256, 32768)
    play >> ev.LogGrew("r", [text(4)], 4)
    play.nothing() >> ev.LogRead("r", 0, texts(1, 3)) << delta(1, 3, "aaa")
    play << fx.ReadLog("r", 1, 3, 253, 32765)


def test_old_news_are_ignored():
    """Hints may come twice."""
    play = reading_one()
    play >> ev.LogGrew("r", [text(1)], 1) << delta(1, 1, "a")
    play.at(1.0) >> ev.LogGrew("r", [text(1)], 1)
    play.nothing() >> ev.LogGrew("r", texts(1, 2), 2) << delta(2, 2, "a")


def test_an_empty_read_waits_for_news():
    """A log that has less than was said is not read in circles."""
    play = reading_one(head=5) << fx.ReadLog("r", 1, 0, 256, 32768)
    play >> ev.LogRead("r", 0, [])
    play.nothing() >> ev.LogGrew("r", [], 5) << fx.ReadLog("r", 1, 0, 256, 32768)


def test_the_first_delta_goes_at_once_and_later_ones_are_paced():
    """20 ms apart; what waits is merged."""
    play = reading_one()
    play >> ev.LogGrew("r", [text(1)], 1) << delta(1, 1, "a")
    play.at(0.005) >> ev.LogGrew("r", [text(2)], 2)
    play.at(0.010) >> ev.LogGrew("r", [text(3)], 3)
    assert play.nothing().session.deadline() == pytest.approx(0.020)
    play.fire() << delta(2, 3, "aa")


def test_the_cap_batch_slows_deltas_after_the_first_second():
    """40 ms instead of 20."""
    play = reading_one(caps=["batch"])
    play >> ev.LogGrew("r", [text(1)], 1) << delta(1, 1, "a")
    play.at(2.0) >> ev.LogGrew("r", [text(2)], 2) << delta(2, 2, "a")
    play >> ev.LogGrew("r", [text(3)], 3)
    assert play.session.deadline() == pytest.approx(2.04)


def test_a_delta_never_spans_another_kind():
    """Events and the end are messages of their own, in the log's order."""
    play = reading_one()
    log = [*texts(1, 2), moved(3), end(4)]
    play >> ev.LogGrew("r", log, 4) << delta(1, 2, "aa") << m.Event(1, "moved", 3, {"why": "lost"})
    assert play.message(m.End).o == 4
    play.nothing()


def test_a_shut_event_window_buffers_nothing():
    """INV-18: what does not fit is read from the log again, merged, after the ack."""
    play = reading_one(window={"events": 2})
    play >> ev.LogGrew("r", texts(1, 2), 2) << delta(1, 2, "aa")
    play.at(1.0) >> ev.LogGrew("r", [text(3)], 3) >> ev.LogGrew("r", [text(4)], 4)
    play.nothing() >> m.Ack([(1, 1)]) << fx.ReadLog("r", 1, 2, 1, 32766)
    play >> ev.LogRead("r", 2, [text(3)]) << delta(3, 3, "a")
    play.at(2.0) >> m.Ack([(1, 3)]) << fx.ReadLog("r", 1, 3, 2, 32768)
    play >> ev.LogRead("r", 3, [text(4)]) << delta(4, 4, "a")


def test_the_end_waits_behind_a_shut_window():
    """It obeys the log's order like text."""
    play = reading_one(window={"events": 1})
    play >> ev.LogGrew("r", [text(1), end(2)], 2) << delta(1, 1, "a")
    play.nothing() >> m.Ack([(1, 1)]) << fx.ReadLog("r", 1, 1, 1, 32768)
    play >> ev.LogRead("r", 1, [end(2)])
    assert play.message(m.End).o == 2


def test_the_byte_window_shuts_too_but_one_entry_always_goes():
    """With nothing in flight an entry larger than the window is sent."""
    play = reading_one(window={"bytes": 10})
    play >> ev.LogGrew("r", [text(1, "x" * 30, 0)], 1) << m.Delta(1, 1, 1, 0, "x" * 30, 1)
    play.at(1.0) >> ev.LogGrew("r", [text(2, "y", 30)], 2)
    play.nothing() >> m.Ack([(1, 1)]) << fx.ReadLog("r", 1, 1, 256, 10)
    play >> ev.LogRead("r", 1, [text(2, "y", 30)]) << m.Delta(1, 2, 2, 30, "y", 2)


def test_a_request_with_nothing_in_flight_may_always_send_one_entry():
    """Another request's unread bytes fill the connection; they hold this one back, not off."""
    narrow = replace(LIMITS, connection_bytes=10)
    play = reading_one(limits=narrow)
    play >> ev.AttachAllowed(ev.ReadableRequest("s", 1, 0, 0, "running"))
    play << m.Attached(2, "s", 1, 1, 0, "running") << fx.Follow("s")
    play >> ev.LogGrew("r", [text(1, "x" * 10, 0)], 1) << m.Delta(1, 1, 1, 0, "x" * 10, 1)
    play >> ev.LogGrew("s", [text(1, "y", 0)], 1) << m.Delta(2, 1, 1, 0, "y", 1)
    play.at(1.0) >> ev.LogGrew("s", [text(2, "y", 1)], 2)
    play.nothing() >> m.Ack([(1, 1)]) << fx.ReadLog("s", 1, 1, 255, 4)


def test_no_request_takes_the_room_of_the_others():
    """INV-20: Of two requests each has half of the connection's bytes at most, also while the other sends
    nothing."""
    narrow = replace(LIMITS, connection_bytes=100)
    play = reading_one(limits=narrow)
    play >> ev.AttachAllowed(ev.ReadableRequest("s", 1, 0, 0, "running"))
    play << m.Attached(2, "s", 1, 1, 0, "running") << fx.Follow("s")
    play >> ev.LogGrew("r", texts(1, 9, "x" * 10), 9) << m.Delta(1, 1, 5, 0, "x" * 50, 5)
    play.at(1.0) >> ev.LogGrew("s", texts(1, 9, "y" * 10), 9) << m.Delta(2, 1, 5, 0, "y" * 50, 5)
    play.nothing()


def test_a_delta_has_at_most_16_kib():
    """A merged range is cut at entries."""
    play = reading_one()
    log = [text(1, "x" * 10_000, 0), text(2, "y" * 10_000, 10_000)]
    play >> ev.LogGrew("r", log, 2) << m.Delta(1, 1, 1, 0, "x" * 10_000, 1)
    play.nothing().fire() << m.Delta(1, 2, 2, 10_000, "y" * 10_000, 2)


def test_the_ack_of_the_end_frees_g():
    """Later acks of it are nobody's; the next request gets a new number."""
    play = reading_one()
    play >> ev.LogGrew("r", [end(1)], 1)
    play.message(m.End)
    play >> m.Ack([(1, 1)]) << fx.Unfollow("r", done=True)
    play >> m.Ack([(1, 1)])
    play.nothing() >> ev.AttachAllowed(ev.ReadableRequest("s", 1, 0, 0, "running"))
    assert play.message(m.Attached).g == 2
    play << fx.Follow("s")


def test_an_ack_of_what_was_not_sent_is_bad_and_the_third_closes():
    """Good acks in the same frame count all the same."""
    play = reading_one()
    play >> ev.LogGrew("r", texts(1, 2), 2) << delta(1, 2, "aa")
    for _ in range(2):
        play >> m.Ack([(1, 1), (1, 99)])
        assert play.message(m.Error).code == "bad_message"
    play >> m.Ack([(1, 99)])
    assert play.message(m.Error).code == "bad_message"
    play << fx.Unfollow("r", done=False) << fx.Close(CloseCode.BAD_MESSAGE)


def test_a_window_above_the_limit_is_clamped_and_zero_pauses():
    """`w` sets the event window of one request."""
    play = reading_one()
    play >> m.Ack([], {"1": 0}) >> ev.LogGrew("r", [text(1)], 1)
    play.nothing() >> m.Ack([], {1: 10_000}) << fx.ReadLog("r", 1, 0, 256, 32768)


def test_attach_on_an_attached_id_moves_the_cursor():
    """The same g; nothing of it is sent between the two."""
    play = reading_one()
    play >> ev.LogGrew("r", texts(1, 3), 3) << delta(1, 3, "aaa")
    play.at(1.0) >> m.Attach("r", 1) << fx.StartAttach("r", None, 1)
    play >> ev.LogGrew("r", [text(4)], 4)
    play.nothing() >> ev.AttachAllowed(ev.ReadableRequest("r", 1, 1, 4, "running"))
    play << m.Attached(1, "r", 1, 2, 4, "running") << fx.Follow("r") << fx.ReadLog("r", 1, 1, 256, 32768)


def test_a_read_that_the_cursor_left_is_thrown_away():
    """Its entries are not those that come next; these are asked for once more, and sent once."""
    play = reading_one(head=3) << fx.ReadLog("r", 1, 0, 256, 32768)
    play >> m.Attach("r", 2) << fx.StartAttach("r", None, 2)
    play >> ev.AttachAllowed(ev.ReadableRequest("r", 1, 2, 3, "running"))
    play.message(m.Attached)
    play << fx.Follow("r") << fx.ReadLog("r", 1, 2, 256, 32768)
    play.nothing() >> ev.LogRead("r", 0, texts(1, 3)) << fx.ReadLog("r", 1, 2, 256, 32768)
    play >> ev.LogRead("r", 2, [text(3)]) << delta(3, 3, "a")
    play.nothing() >> ev.LogRead("r", 2, [text(3)])


def test_detach_is_silent():
    """No reply, and no more of its frames."""
    play = reading_one()
    play >> m.Detach("r") << fx.Unfollow("r", done=False)
    play >> ev.LogGrew("r", [text(1)], 1) >> m.Detach("r")
    play.nothing()


def test_a_dup_on_an_attached_connection_only_repeats_accepted():
    """Its reading goes on undisturbed."""
    play = reading_one()
    send = m.Send("r", content="hi")
    play >> send << fx.StartSend(send)
    play >> ev.SendAccepted(ev.ReadableRequest("r", 1, 0, 5, "running"), True, "interactive")
    accepted = play.message(m.Accepted)
    assert (accepted.g, accepted.dup) == (1, True)
    play.nothing()


def test_a_cancel_before_accepted_is_remembered():
    """Answered `pending` at once, done as soon as the request is accepted, and not answered twice."""
    play = open_session()
    send = m.Send("r", content="hi")
    play >> send << fx.ConfirmResumeToken() << fx.StartSend(send)
    play >> m.Cancel("r") << m.CancelOk("r", "pending")
    play >> ev.SendAccepted(ev.ReadableRequest("r", 1, 0, 0, "queued"), False, "interactive")
    play.message(m.Accepted)
    play << fx.Follow("r") << fx.StartCancel("r", answer=False)


def test_a_refused_turn_leaves_room():
    """Pending sends count towards the 16; a refused one does not any more."""
    play = open_session()
    for number in range(16):
        play >> m.Send(f"r{number}", content="x")
    play.effects.clear()
    play >> m.Send("one more", content="x")
    refused = play.message(m.Error)
    assert (refused.code, refused.scope, refused.limit) == ("rate_limited", "connection", 16)
    play >> ev.SendRefused("r0", NO) << m.Error(NO.code, NO.message, False, "send", "r0")
    play >> m.Send("one more", content="x") << fx.StartSend(m.Send("one more", content="x"))


def test_a_refused_attach_ends_the_reading():
    """The error names what was asked, if the client asked."""
    play = reading_one()
    play >> ev.AttachRefused("r", NO, asked=False)
    play << m.Error(NO.code, NO.message, False, id="r") << fx.Unfollow("r", done=False)


def test_a_silent_client_is_pinged_and_then_dropped():
    """The ping comes after 25 s ± 20 %; 10 s later the socket is closed, resumable."""
    play = open_session()
    play.fire().message(m.ServerPing)
    assert 20.0 <= play.now <= 30.0
    pinged = play.now
    play.fire() << fx.Close(CloseCode.NO_PONG)
    assert play.now == pinged + 10.0


def test_any_frame_counts_as_life():
    """Even a malformed one."""
    play = open_session()
    play.fire().message(m.ServerPing)
    play >> ev.FrameRejected(refusal(ErrorCode.BAD_MESSAGE, "what?"))
    play.message(m.Error)
    play.fire().message(m.ServerPing)


def test_a_pong_carries_acks():
    """And a client's ping is answered with its own timestamp."""
    play = reading_one()
    play >> ev.LogGrew("r", [end(1)], 1)
    play.message(m.End)
    play >> m.Pong(5, [(1, 1)]) << fx.Unfollow("r", done=True)
    play >> m.Ping(7) << m.ServerPong(7)


def test_ten_bad_messages_within_a_minute_close():
    """Nine do not, and old ones are forgotten."""
    play = open_session()
    bad = ev.FrameRejected(refusal(ErrorCode.BAD_MESSAGE, "what?"))
    for second in range(9):
        play.at(float(second)) >> bad
    play.at(61.0) >> bad
    assert play.session.state is SessionState.OPEN
    play >> bad
    for _ in range(9 + 1 + 1):
        assert play.message(m.Error).code == ErrorCode.BAD_MESSAGE
    play << fx.Close(CloseCode.BAD_MESSAGE)


def test_bye_is_orderly():
    """The session ends, then the socket."""
    play = open_session()
    play >> m.Bye() << fx.ConfirmResumeToken() << fx.EndSession() << fx.Close(CloseCode.NORMAL)


def test_the_cap_trace_tells_how_deltas_were_made():
    """Each delta's number, and how long the first of its text waited for the pace."""
    play = reading_one(caps=["trace"])
    play >> ev.LogGrew("r", texts(1, 3), 3)
    first = play.message(m.Delta)
    assert (first.batch, first.ms) == (1, 0)
    play.at(0.005) >> ev.LogGrew("r", [text(4)], 4)
    play.nothing().fire()
    second = play.message(m.Delta)
    assert (second.batch, second.ms) == (2, 15)


def moved(o: int) -> Entry:
    """A logged event."""
    return Entry(o, EntryKind.MOVED, v=b'{"why":"lost"}')
