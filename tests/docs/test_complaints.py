"""The pages of complaints name tests that exist, and their check notices where they do not."""

import runpy
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_complaints.py"
GOOD = "`tests/docs/test_complaints.py::test_the_page_names_tests_that_exist`"
WRONG = [
    "`tests/docs/test_complaints.py::test_that_was_renamed`",
    "`tests/docs/test_gone.py::test_the_page_names_tests_that_exist`",
    "`tests/docs/test_complaints.py`",
    "`tests/conformance/gateway/ping.yaml: a case that was renamed`",
    "`tests/docs/test_complaints.py::Class::test_the_page_names_tests_that_exist`",
]


@pytest.fixture
def check() -> dict[str, Any]:
    """The script's names."""
    return runpy.run_path(str(SCRIPT))


def page(check: dict[str, Any], first: str, tested: int = 35) -> str:
    """A page whose first complaint says this; of the others so many name a test."""
    said = (
        [first]
        + [GOOD] * (tested - 1)
        + ["Not covered: it cannot be."] * (check["PAGES"][0].complaints - tested)
    )
    return "".join(f"### {number}. Something\n\n{text}\n\n" for number, text in enumerate(said, start=1))


def problems_of(check: dict[str, Any], text: str) -> list[str]:
    """What is wrong with a text in place of the first page."""
    problems, _ = check["problems_of"](text, check["PAGES"][0])
    return problems


@pytest.mark.parametrize("number", [0, 1])
def test_the_page_names_tests_that_exist(check: dict[str, Any], number: int):
    """All thirty-five about streams, at least twenty-five with a test; all twenty-eight about bills."""
    listed = check["PAGES"][number]
    assert check["problems_of"](listed.path.read_text(), listed)[0] == []


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_name_fails(check: dict[str, Any], wrong: str):
    """A test that was renamed, moved or never there."""
    assert problems_of(check, page(check, GOOD)) == []
    problems = problems_of(check, page(check, wrong))
    assert problems == [f"1: {wrong.strip('`')} does not exist"]


def test_too_few_and_silent_ones_fail(check: dict[str, Any]):
    """Neither a test nor a reason; fewer than twenty-five tests; one complaint missing."""
    assert problems_of(check, page(check, "Nothing.")) == ["1: no test, and no reason why"]
    assert problems_of(check, page(check, GOOD, tested=24)) == ["24 complaints name a test, 25 must"]
    assert problems_of(check, page(check, GOOD).replace("### 9.", "## 9."))
