"""What time does to a session: slow readers, the end of access, a drain."""

# A line of a play is an expression for its effect.
# pyright: reportUnusedExpression=false

from dataclasses import replace

from server.protocol import messages as m
from server.protocol.codes import CloseCode
from server.session import effects as fx
from server.session import events as ev
from tests.server.playbook import LIMITS, Playbook, end, opened, reading_one, text, texts

PATIENT = replace(LIMITS, heartbeat_interval=10_000.0)
SLOW = replace(PATIENT, events=2)
HELLO = m.Hello(1, "key")


def shut_at_zero() -> Playbook:
    """A reader whose window of two events is full, and the log has more."""
    play = reading_one(limits=SLOW)
    play >> ev.LogGrew("r", texts(1, 3), 3) << m.Delta(1, 1, 2, 0, "aa", 2)
    return play.nothing().fire().nothing()  # the third waited for the pace, and then met the window


def test_a_reader_that_is_shut_for_two_seconds_is_told_so():
    """`paused` is about this connection only: it has no offset. The next delivery says `unpaused` first."""
    play = shut_at_zero()
    play.at(1.9) >> ev.TimerFired()
    play.nothing().fire()
    assert play.now == 2.0
    play << m.Event(1, "paused")
    play.nothing() >> m.Ack([(1, 2)]) << fx.ReadLog("r", 1, 2, 2, 32 * 1024)
    play >> ev.LogRead("r", 2, [text(3)]) << m.Event(1, "unpaused") << m.Delta(1, 3, 3, 2, "a", 3)
    assert fx.Measure(fx.MeasureKind.STALL_SECONDS, 2.0) in play.measured


def test_after_a_pause_merges_are_larger_until_the_head_is_reached():
    """A delta each 250 ms, not each 20, while the reader catches up."""
    play = reading_one(limits=replace(PATIENT, events=4))
    play >> ev.LogGrew("r", texts(1, 5), 5) << m.Delta(1, 1, 4, 0, "aaaa", 4)
    play.fire().nothing().fire() << m.Event(1, "paused")
    play >> ev.LogGrew("r", [], 50) >> m.Ack([(1, 4)]) << fx.ReadLog("r", 1, 4, 4, 32 * 1024)
    play >> ev.LogRead("r", 4, texts(5, 8)) << m.Event(1, "unpaused") << m.Delta(1, 5, 8, 4, "aaaa", 8)
    play.at(2.1) >> m.Ack([(1, 8)]) << fx.ReadLog("r", 1, 8, 4, 32 * 1024)
    play >> ev.LogRead("r", 8, texts(9, 10))
    play.nothing().fire() << m.Delta(1, 9, 10, 8, "aa", 10) << fx.ReadLog("r", 1, 10, 2, 32 * 1024 - 2)
    assert play.now == 2.25


def test_a_small_window_that_is_full_catches_up_at_once():
    """Waiting could not make the delta larger."""
    play = shut_at_zero()
    play.fire() << m.Event(1, "paused")
    play >> ev.LogGrew("r", [], 50) >> m.Ack([(1, 2)]) << fx.ReadLog("r", 1, 2, 2, 32 * 1024)
    play >> ev.LogRead("r", 2, texts(3, 4)) << m.Event(1, "unpaused") << m.Delta(1, 3, 4, 2, "aa", 4)
    play >> m.Ack([(1, 4)]) << fx.ReadLog("r", 1, 4, 2, 32 * 1024)
    play >> ev.LogRead("r", 4, texts(5, 6)) << m.Delta(1, 5, 6, 4, "aa", 6)


def test_no_ack_for_thirty_seconds_makes_a_reader_stuck_and_one_ack_frees_it():
    """Stuck is told to the pool, which parks a request that only stuck readers read."""
    play = shut_at_zero()
    play.fire() << m.Event(1, "paused")
    play.nothing().fire()
    assert play.now == 30.0
    play << fx.ReportReader("r", stuck=True)
    (
        play.nothing()
        >> m.Ack([(1, 1)])
        << fx.ReportReader("r", stuck=False)
        << fx.ReadLog("r", 1, 2, 1, 32 * 1024 - 2)
    )


def test_an_open_window_does_not_hide_a_reader_that_acks_nothing():
    """A slow model never fills the window; its reader is stuck all the same after 30 s."""
    play = reading_one(limits=PATIENT)
    play >> ev.LogGrew("r", [text(1)], 1) << m.Delta(1, 1, 1, 0, "a", 1)
    play.nothing().fire()
    assert play.now == 30.0
    play << fx.ReportReader("r", stuck=True)


def test_a_paused_reader_is_stuck_once_it_is_many_tokens_behind():
    """More than 4,096 tokens behind a shut window is enough."""
    play = shut_at_zero()
    play.fire() << m.Event(1, "paused")
    play >> ev.LogGrew("r", [text(4, i=4_096)], 4)
    play.nothing() >> ev.LogGrew("r", [text(5, i=4_097)], 5) << fx.ReportReader("r", stuck=True)


def test_a_reader_that_acks_everything_is_never_stuck():
    """However long nothing comes: there is nothing it owes."""
    play = reading_one(limits=PATIENT)
    play >> ev.LogGrew("r", [text(1)], 1) << m.Delta(1, 1, 1, 0, "a", 1)
    play >> m.Ack([(1, 1)])
    play.at(100.0) >> ev.TimerFired()
    play.nothing()
    play >> ev.LogGrew("r", [end(2)], 2)
    assert play.message(m.End).o == 2


def test_a_repeated_ack_is_no_sign_of_life():
    """An ack that moves nothing does not free a stuck reader."""
    play = shut_at_zero()
    play >> m.Ack([(1, 1)])
    play << fx.ReadLog("r", 1, 2, 1, 32 * 1024 - 2) >> ev.LogRead("r", 2, [text(3)])
    play << m.Delta(1, 3, 3, 2, "a", 3)
    play.fire() << fx.ReportReader("r", stuck=True)
    play >> m.Ack([(1, 1)])
    play.nothing()


def opened_for(access_ms: int | None) -> Playbook:
    """A session whose access ends."""
    play = Playbook(PATIENT)
    play >> HELLO << fx.OpenSession(HELLO) >> replace(opened(), access_ms=access_ms)
    play.message(m.Welcome)
    return play


def test_a_minute_before_access_ends_the_client_is_asked_for_a_fresh_token():
    """Unanswered, the session closes 4014 with `token_expired`, which may be retried."""
    play = opened_for(100_000)
    play.nothing().fire()
    assert play.now == 40.0
    play << m.AuthRequired(60_000)
    play.nothing().fire()
    assert play.now == 100.0
    assert play.message(m.Error).code == "token_expired"
    play << fx.Close(CloseCode.AUTH_EXPIRED)


def test_a_fresh_token_moves_the_end_of_access():
    """The notice comes again a minute before the new end; without an end it does not come."""
    play = opened_for(100_000).fire() << m.AuthRequired(60_000)
    play >> m.Auth("fresh") << fx.ConfirmResumeToken() << fx.Reauthenticate("fresh")
    play >> ev.Reauthenticated(200_000) << m.AuthOk(200_000)
    play.fire() << m.AuthRequired(60_000)
    assert play.now == 180.0
    play >> ev.Reauthenticated(None) << m.AuthOk()
    play.at(5_000.0) >> ev.TimerFired()
    play.nothing()


def test_where_less_than_a_minute_is_left_the_notice_comes_at_once():
    """With the time that is left."""
    play = opened_for(5_000).fire()
    assert play.now == 0.0
    play << m.AuthRequired(5_000)


def test_a_drain_asks_first_and_closes_at_its_deadline():
    """Until then everything works: the client moves without a gap."""
    play = reading_one(limits=PATIENT)
    play >> ev.DrainStarted(5_000) << m.GoAway("drain", 5_000)
    play.nothing() >> ev.LogGrew("r", [text(1)], 1) << m.Delta(1, 1, 1, 0, "a", 1)
    play >> m.Send("s", content="hi") << fx.StartSend(m.Send("s", content="hi"))
    play.nothing().fire() << fx.Unfollow("r", done=False) << fx.Close(CloseCode.DRAIN)
    assert play.now == 5.0


def test_a_drain_before_hello_closes_at_once():
    """There is nothing to hand over."""
    play = Playbook()
    play >> ev.DrainStarted(5_000) << fx.Close(CloseCode.DRAIN)
