"""A shape whose masks are too slow ends its own request, and no other."""

from dataclasses import dataclass, field

import pytest

from engine.backends.mask_budget import CALL_SECONDS_MAX, keep_within_budget


@dataclass
class SlowMask:
    """A grammar whose calls take what they are told, and its clock."""

    mask: float = 0.0
    token: float = 0.0
    over: bool = False
    fails: bool = False
    now: float = 0.0
    told: list[float] = field(default_factory=list[float])

    def fill_bitmask(self, bitmask: object, index: int) -> None:
        """One mask."""
        self.now += self.mask

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Some tokens."""
        self.now += self.token
        return not self.fails

    def is_terminated(self) -> bool:
        """Whether the answer is complete."""
        return self.over


def timed(grammar: SlowMask) -> SlowMask:
    """The grammar, within its budget."""
    keep_within_budget(grammar, grammar.told.append, lambda: grammar.now)
    return grammar


@pytest.mark.parametrize("which", ["mask", "token"])
def test_after_one_slow_call_no_token_is_taken(which: str):
    """The engine ends a request whose token is not taken. Said once."""
    grammar = timed(SlowMask())
    setattr(grammar, which, CALL_SECONDS_MAX / 2)
    for _ in range(3):
        grammar.fill_bitmask(None, 0)
        assert grammar.accept_tokens("r", [1])
    setattr(grammar, which, CALL_SECONDS_MAX * 2)
    for _ in range(2):
        grammar.fill_bitmask(None, 0)
        assert not grammar.accept_tokens("r", [1])
    assert grammar.told == [pytest.approx(CALL_SECONDS_MAX * 2)]
    setattr(grammar, which, 0.0)
    assert not grammar.accept_tokens("r", [1]), "once slow is enough"


def test_an_answer_that_is_complete_is_left_alone():
    """Its slow masks hurt nobody any more; and a token that does not fit is still refused."""
    grammar = timed(SlowMask(mask=1.0, over=True))
    grammar.fill_bitmask(None, 0)
    assert grammar.accept_tokens("r", [1])
    grammar.fails = True
    assert not grammar.accept_tokens("r", [1])
