"""What runs with every change, and what in the long form only."""

from pathlib import Path

from tests.support.tiers import TWINS_ARE_LONG, long_twins

ROOT = Path(__file__).parent.parent.parent


def test_of_a_files_twins_one_stays() -> None:
    """The first by name, whatever the order; a file that is not listed keeps all."""
    twins = [f"tests/server/http/test_http.py::test_{at}[postgres]" for at in (3, 1, 2)]
    others = [f"tests/billing/ledger/test_ledger.py::test_{at}[postgres]" for at in (1, 2)]
    assert long_twins([*twins, *others]) == {twins[0], twins[2]}


def test_the_list_names_files_that_exist() -> None:
    """One that moved would come back into every run."""
    assert [file for file in sorted(TWINS_ARE_LONG) if not (ROOT / file).exists()] == []
