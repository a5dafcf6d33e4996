"""Which turns a prompt keeps: all while they fit, then few enough that the engine's cache serves the turns
that follow."""

from hypothesis import given
from hypothesis import strategies as st

from server.conversations.fit import answer_share, fit

CONTEXT, RESERVE = 8192, 2048
BLOCK = 16  # tokens of a cached block of vLLM; only whole ones are found again
QUESTION, ANSWER, PAST_THE_END = 300, 500, 40


def test_nothing_is_dropped_while_it_fits():
    """To the last token."""
    assert fit([2048, 2048, 2048], CONTEXT, RESERVE) == 3
    assert fit([2048, 2048, 2000], CONTEXT, RESERVE, fixed=48) == 3
    assert fit([], CONTEXT) == 0


def test_whole_turns_go_until_a_quarter_is_free():
    """A token too many, and prompt and reserve together use three quarters at most."""
    assert fit([2048, 2048, 2049], CONTEXT, RESERVE) == 1
    assert fit([2048, 2049, 1000, 1000], CONTEXT, RESERVE, fixed=48) == 2
    assert fit([10, 2048, 2048, 2048], CONTEXT, RESERVE) == 2


def test_the_last_turn_is_never_dropped():
    """It may use what is free; one that alone does not fit is said to."""
    assert fit([100, 6144], CONTEXT, RESERVE) == 1
    assert fit([100, 6145], CONTEXT, RESERVE) == 0
    assert fit([6145], CONTEXT, RESERVE) == 0


@given(st.lists(st.integers(1, 3_000), min_size=1, max_size=60), st.integers(0, 2_000), st.integers(1, 9_000))
def test_what_is_kept_fits_and_is_as_much_as_may_be(turns: list[int], fixed: int, most: int):
    """For any turns: what is kept fits; where some are dropped one more would be over the target."""
    reserve = answer_share(most, CONTEXT)
    kept = fit(turns, CONTEXT, reserve, fixed)
    used = fixed + reserve + sum(turns[len(turns) - kept :])
    if kept == 0:
        assert used + turns[-1] > CONTEXT
    else:
        assert used <= CONTEXT
    if 0 < kept < len(turns):
        assert used + turns[-kept - 1] > CONTEXT * 3 // 4
        assert kept == 1 or used <= CONTEXT * 3 // 4


def test_past_the_end_most_of_each_prompt_is_cached():
    """40 turns of 300 and 500 tokens beyond the context, one user on one worker: the prompt's beginning that
    the prompt before had too, by whole blocks, is 60 % of all prompt tokens and more."""
    turns, cached, tokens, before = list[int](), 0, 0, list[int]()
    beyond = number = 0
    while beyond < PAST_THE_END:
        number += 1
        kept = fit([*turns, QUESTION], CONTEXT, RESERVE)
        beyond += kept <= len(turns) or beyond > 0
        turns = turns[len(turns) + 1 - kept :]
        prompt = [id for turn in range(number + 1 - kept, number) for id in _ids(turn)] + _ids(number)[
            :QUESTION
        ]
        if beyond:
            same = next(
                (at for at, pair in enumerate(zip(before, prompt, strict=False)) if pair[0] != pair[1]), None
            )
            cached += (
                min(len(before), len(prompt)) // BLOCK * BLOCK if same is None else same // BLOCK * BLOCK
            )
            tokens += len(prompt)
        before = prompt + _ids(number)[QUESTION:]
        turns.append(QUESTION + ANSWER)
    print(f"cached {cached / tokens:.0%} of {tokens:,} prompt tokens")
    assert cached / tokens >= 0.6


def _ids(turn: int) -> list[int]:
    """Tokens of a turn's question and answer, unlike those of any other."""
    return [turn * 1_000 + n for n in range(QUESTION + ANSWER)]
