"""Window accounting against a model: nothing is sent that the windows do not allow, and bytes never leak."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from server.session.window import ConnectionWindow, RequestWindow

EVENTS, BYTES, CONNECTION = 8, 100, 150


@settings(max_examples=300)
@given(st.integers(0, 2**32))
def test_windows_hold_under_any_order_of_sends_and_acks(seed: int):
    """Unacked bytes are those in flight; only a single entry with nothing in flight may pass a window."""
    rng = random.Random(seed)
    connection = ConnectionWindow(CONNECTION)
    windows = [RequestWindow(connection, EVENTS, BYTES) for _ in range(3)]
    flying: list[list[tuple[int, int]]] = [[] for _ in windows]
    for _ in range(60):
        at = rng.randrange(len(windows))
        window, mine = windows[at], flying[at]
        if rng.random() < 0.6:
            events, size = rng.randint(1, 4), rng.randint(0, 160)
            total = sum(size for each in flying for _, size in each)
            own = sum(size for _, size in mine)
            if window.fits(events, size):
                assert own + size <= BYTES or (events == 1 and not mine)
                assert total + size <= CONNECTION or (events == 1 and not mine)
                window.count(window.sent + events, size)
                mine.append((window.sent, size))
        else:
            o = rng.randint(0, window.sent + 2)
            assert window.ack(o) is (o <= window.sent)
            if o <= window.sent:
                mine[:] = [(through, size) for through, size in mine if through > o]
        assert window.sent - window.acked <= EVENTS
        assert window.unacked == sum(size for _, size in mine)
        assert connection.unacked == sum(size for each in flying for _, size in each)
    for window in windows:
        window.forget()
    assert connection.unacked == 0


def test_acks_are_cumulative_and_absolute():
    """An old one changes nothing, a newer one covers all before it."""
    window = RequestWindow(ConnectionWindow(1000), 10, 1000)
    for o in (1, 2, 3):
        window.count(o, 10)
    assert window.ack(2)
    assert window.ack(1)
    assert (window.acked, window.unacked, window.events_room()) == (2, 10, 9)


def test_a_window_of_no_events_lets_nothing_through():
    """0 pauses, even with nothing in flight."""
    assert not RequestWindow(ConnectionWindow(1000), 0, 1000).fits(1, 1)


def test_a_fresh_window_has_sent_nothing():
    """So that nothing may be acknowledged."""
    window = RequestWindow(ConnectionWindow(1000), 10, 1000)
    assert (window.sent, window.sent_most, window.acked, window.tokens_acked) == (0, 0, 0, 0)
    assert window.ack(0)
    assert not window.ack(1)


def test_what_was_in_flight_before_a_restart_is_nobodys():
    """Its bytes are given back once, and the farthest offset that was ever sent is known."""
    connection = ConnectionWindow(1000)
    window = RequestWindow(connection, 10, 1000)
    window.count(3, 10, tokens=30)
    window.restart(1)
    assert (window.sent, window.sent_most, window.acked, connection.unacked) == (1, 3, 1, 0)
    window.count(2, 10)
    assert window.sent_most == 3
    window.ack(2)
    assert (connection.unacked, window.unacked, window.tokens_acked) == (0, 0, 0)
    window.count(4, 10, tokens=40)
    window.count(5, 10)
    window.ack(5)
    assert (window.sent_most, window.tokens_acked) == (5, 40)
    window.restart(9)
    assert window.sent_most == 9


def test_room_is_what_is_left_and_never_negative():
    """Also where a window was made smaller, or more was sent than it lets through."""
    connection = ConnectionWindow(100)
    window = RequestWindow(connection, 10, 60)
    assert (connection.share(), connection.room(), window.bytes_room()) == (100, 100, 60)
    connection.requests = 1
    assert connection.share() == 100
    connection.requests = 4
    assert (connection.share(), window.bytes_room()) == (25, 25)
    window.count(4, 24)
    assert (connection.room(), window.bytes_room(), window.events_room()) == (76, 1, 6)
    window.count(8, 90)
    assert (connection.room(), window.bytes_room()) == (0, 0)
    window.events_max = 2
    assert window.events_room() == 0
    connection.bytes_max = 1000
    assert (connection.room(), window.bytes_room()) == (886, 0)


def test_the_connection_has_room_for_no_more_than_all_of_it():
    """Whatever a request's own window would let through."""
    connection = ConnectionWindow(100)
    one, other = RequestWindow(connection, 10, 100), RequestWindow(connection, 10, 100)
    one.count(1, 80)
    other.count(1, 10)
    assert (other.bytes_room(), other.fits(1, 10), other.fits(1, 11)) == (10, True, False)
    assert other.fits(2, 10)
