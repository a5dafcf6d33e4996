"""The check that each invariant is proved by a test that says so (`make check`) notices where none does."""

import runpy
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_invariants.py"
TEST = '@mark\nasync def test_it():\n    """INV-1, INV-3: It holds."""\n'


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The script's names. It shares a part with the check of complaints, beside it."""
    monkeypatch.syspath_prepend(SCRIPT.parent)
    return runpy.run_path(str(SCRIPT))


def test_what_a_test_proves_is_what_its_docstring_begins_with(check: dict[str, Any]):
    """Of tests and conformance cases; not what it only mentions, nor a helper, nor the long form alone."""
    proofs_in = check["proofs_in"]
    assert proofs_in("a.py", TEST) == {"a.py::test_it": {"INV-1", "INV-3"}}
    assert proofs_in("a.py", TEST.replace("INV-1, INV-3: It", "See INV-1: it")) == {}
    assert proofs_in("a.py", TEST.replace("test_it", "helps")) == {}
    assert proofs_in("a.py", TEST.replace("@mark", "@pytest.mark.long")) == {}
    assert proofs_in("a.py", f"pytestmark = pytest.mark.long\n{TEST}") == {}
    case = 'cases:\n  - name: it is so\n    why: "INV-2: Always"\n  - name: other\n    why: it is\n'
    assert proofs_in("a.yaml", case) == {"a.yaml::it is so": {"INV-2"}}


def test_a_gap_and_an_unknown_number_fail(check: dict[str, Any]):
    """Each is named; a row that was left out, too."""
    problems_of = check["problems_of"]
    assert problems_of(["INV-1"], {"a": {"INV-1"}}, {"b.py": {"INV-1"}}) == []
    assert problems_of(["INV-1", "INV-2"], {"a": {"INV-1"}}, {}) == ["INV-2: no test proves it"]
    assert problems_of(["INV-1"], {"a": {"INV-1"}}, {"b.py": {"INV-9"}}) == [
        "b.py cites INV-9, which has no row here"
    ]
    assert problems_of(["INV-2"], {"a": {"INV-2"}}, {}) == ["the rows are numbered ['INV-2']"]
