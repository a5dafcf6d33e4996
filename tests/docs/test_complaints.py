"""Pages name tests that exist, and their check notices where they do not."""

import runpy
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_complaints.py"
GOOD = [
    "`tests/docs/test_complaints.py::test_pages_name_tests_that_exist`",
    "`tests/server/session/test_machine_model_client.py::TestClientModel`",
]
WRONG = [
    "`tests/docs/test_complaints.py::test_that_was_renamed`",
    "`tests/docs/test_gone.py::test_pages_name_tests_that_exist`",
    "`tests/conformance/gateway/ping.yaml: a case that was renamed`",
    "`tests/docs/test_complaints.py::Class::test_pages_name_tests_that_exist`",
]


@pytest.fixture
def check() -> dict[str, Any]:
    """The script's names."""
    return runpy.run_path(str(SCRIPT))


def test_pages_name_tests_that_exist(check: dict[str, Any]):
    """All that docs/*.md name."""
    assert check["main"]() == 0


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_name_fails(check: dict[str, Any], wrong: str):
    """A test that was renamed, moved or never there."""
    assert check["problems_of"](" ".join([*GOOD, wrong])) == [f"{wrong.strip('`')} does not exist"]
