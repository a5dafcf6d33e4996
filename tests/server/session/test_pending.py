"""What a client wishes while its send or attach is under way."""

# A line of a play is an expression for its effect.
# pyright: reportUnusedExpression=false

from server.protocol import messages as m
from server.session import effects as fx
from server.session import events as ev
from server.session.pending import PendingRequests
from tests.server.playbook import open_session, reading_one, text


def test_what_is_detached_before_it_is_accepted_is_not_read():
    """`accepted` comes, and nothing after it; the place is free."""
    play = open_session()
    play >> m.Send("r", content="hi") << fx.ConfirmResumeToken() << fx.StartSend(m.Send("r", content="hi"))
    play >> m.Detach("r")
    play >> ev.SendAccepted(ev.ReadableRequest("r", 1, 0, 0, "queued"), False, "interactive")
    assert play.message(m.Accepted).g == 1
    play.nothing() >> ev.LogGrew("r", [text(1)], 1)
    play.nothing()


def test_an_attach_that_is_detached_before_its_answer_reads_nothing():
    """A further attach reads all the same."""
    play = open_session()
    play >> m.Attach("r", 0) << fx.ConfirmResumeToken() << fx.StartAttach("r", None, 0)
    play >> m.Detach("r") >> m.Attach("r", 3) << fx.StartAttach("r", None, 3)
    play >> ev.AttachAllowed(ev.ReadableRequest("r", 1, 0, 3, "running"))
    play.nothing() >> ev.AttachAllowed(ev.ReadableRequest("r", 1, 3, 3, "running"))
    play << m.Attached(1, "r", 1, 4, 3, "running") << fx.Follow("r")


def test_the_first_delta_after_an_attach_goes_at_once():
    """The pace of the cursor before it does not hold it back."""
    play = reading_one()
    play >> ev.LogGrew("r", [text(1)], 1) << m.Delta(1, 1, 1, 0, "a", 1)
    play >> m.Attach("r", 0) << fx.StartAttach("r", None, 0)
    play >> ev.AttachAllowed(ev.ReadableRequest("r", 1, 0, 1, "running"))
    play << m.Attached(1, "r", 1, 1, 1, "running") << fx.Follow("r") << fx.ReadLog("r", 1, 0, 256, 32 * 1024)
    play >> ev.LogRead("r", 0, [text(1)]) << m.Delta(1, 1, 1, 0, "a", 1)


def test_a_detach_is_about_every_attach_before_it():
    """Two under way: neither reads; the next one does, and nothing of them is remembered."""
    pending = PendingRequests()
    pending.attach("r")
    pending.attach("r")
    pending.detach("r")
    assert (pending.attached("r"), pending.attached("r")) == (False, False)
    pending.attach("r")
    assert pending.attached("r")
    assert pending.attached("r"), "one that nobody counts is wanted"
    pending.detach("r")
    assert pending.attached("r"), "a detach after the answer is not about the next attach"


def test_a_send_is_under_way_until_each_of_its_kind_is_answered():
    """What was wished before is known to each answer."""
    pending = PendingRequests()
    pending.send("r")
    pending.send("r")
    pending.cancel("r")
    assert pending.answered("r").cancelled
    assert (pending.sent("r"), pending.ids()) == (True, ["r"])
    assert pending.answered("r").cancelled
    assert (pending.sent("r"), pending.ids()) == (False, [])
