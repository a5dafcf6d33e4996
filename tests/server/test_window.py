"""Window accounting against a model: nothing is sent that the windows do not allow, and bytes never leak."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from server.session.window import ConnectionWindow, Window

EVENTS, BYTES, CONNECTION = 8, 100, 150


@settings(max_examples=300)
@given(st.integers(0, 2**32))
def test_windows_hold_under_any_order_of_sends_and_acks(seed: int):
    """Unacked bytes are those in flight; only a single entry with nothing in flight may pass a window."""
    rng = random.Random(seed)
    connection = ConnectionWindow(CONNECTION)
    windows = [Window(connection, EVENTS, BYTES) for _ in range(3)]
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
    window = Window(ConnectionWindow(1000), 10, 1000)
    for o in (1, 2, 3):
        window.count(o, 10)
    assert window.ack(2)
    assert window.ack(1)
    assert (window.acked, window.unacked, window.events_room()) == (2, 10, 9)


def test_a_window_of_no_events_lets_nothing_through():
    """0 pauses, even with nothing in flight."""
    assert not Window(ConnectionWindow(1000), 0, 1000).fits(1, 1)
