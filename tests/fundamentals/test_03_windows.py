"""Who does not acknowledge is sent no more: the answer waits in the log, not in our memory."""

from server.session.window import ConnectionWindow, RequestWindow


def test_a_window_opens_again_by_an_acknowledgement():
    """An acknowledgement names an offset, and covers all before it: lost and repeated ones do no harm."""
    window = RequestWindow(ConnectionWindow(1_000), 3, 100)  # three entries, a hundred bytes
    for offset in (1, 2, 3):
        assert window.fits(1, 20)
        window.count(offset, 20)
    assert not window.fits(1, 20)
    assert window.ack(2)
    assert window.ack(1)  # an old one changes nothing
    assert (window.acked, window.unacked) == (2, 20)
    assert window.fits(1, 20)
    assert not window.ack(9)  # what was never sent
