"""A session decides without a socket and without a clock: events go in, effects come out."""

# A line of a play is an expression for its effect.
# pyright: reportUnusedExpression=false

from server.protocol import messages as m
from server.protocol.codes import CloseCode
from server.session import effects as fx
from server.session import events as ev
from server.session.machine import SessionState
from tests.server.playbook import Playbook


def test_a_client_says_hello_in_time_or_is_closed():
    """`>>` plays an event, `<<` expects its effect. Time is a number that the test sets."""
    play = Playbook()
    play >> m.Hello(v=1) << fx.OpenSession(m.Hello(v=1))  # the shell asks Redis, and answers with an event
    late = Playbook()
    late.at(10.0) >> ev.TimerFired() << fx.Close(CloseCode.HELLO_TIMEOUT)
    assert late.session.state is SessionState.CLOSED
