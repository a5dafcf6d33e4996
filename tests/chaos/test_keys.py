"""What the benchmark of keys, tickets and sessions makes of its pairs."""

from chaos.bench.keys import Block, figures, turns


def test_both_sides_check_as_often_and_take_turns_in_being_first():
    """Twenty-five checks are three turns, the last of them short."""
    said = list(turns(["this", "beside"], 25))
    assert said == [
        ("this", 10), ("beside", 10), ("beside", 10), ("this", 10), ("this", 5), ("beside", 5),
    ]  # fmt: skip


def test_a_ratio_is_of_a_pair_and_not_of_the_medians():
    """Where what else the machine does slows a whole pair, both sides have it."""
    pairs = [(1.0, 1.0), (40.0, 20.0), (3.0, 1.0)]
    found = [{"this": Block(this, this, this), "beside": Block(old, old, old)} for this, old in pairs]
    facts = figures(found)
    assert facts["this_p99"] == 3.0
    assert facts["p99_ratio"] == [2.0, 1.0, 3.0]


def test_alone_there_is_no_ratio():
    """Without --beside."""
    assert figures([{"this": Block(1, 2, 3)}]) == {"this_p99": 2, "this_p50": 1, "this_cpu": 3}
