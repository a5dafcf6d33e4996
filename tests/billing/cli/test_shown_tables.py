"""How commands print several things with the same facts."""

import pytest

from billing.cli.run_command import show_table

ID = "01a1ff47-644a-79a9-9144-3f519323a5ff"


def test_ids_can_be_copied_and_empty_facts_take_no_room(capsys: pytest.CaptureFixture[str]):
    """However much a row says, an id stands on one line; what is empty of all rows has no column."""
    facts = {"id": ID, "ended": None, "note": "", "amount": "$1.50", "for": None, "text": "word " * 80}
    show_table([facts, facts | {"for": "ann", "amount": "-$10.00"}], False, "nothing")
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["id", "amount", "for", "text"]
    assert (first.split()[0], second.split()[:3]) == (ID, [ID, "-$10.00", "ann"])
    assert first.index("$1.50") == second.index("-$10.00") + 2  # numbers stand at the right


def test_where_there_is_nothing_it_says_what_to_do(capsys: pytest.CaptureFixture[str]):
    """For people; scripts get no line."""
    show_table([], False, "there are none: make one")
    assert capsys.readouterr().out == "there are none: make one\n"
    show_table([], True, "there are none: make one")
    assert capsys.readouterr().out == ""
