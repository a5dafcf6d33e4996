"""The gateway is held to the cases under gateway/ without a socket, in virtual time (README.md)."""

from pathlib import Path

import pytest

from tests.conformance.cases import Case, cases_in
from tests.conformance.ledger import BrokenPromise
from tests.conformance.machine import Machines
from tests.conformance.runner import play
from tests.conformance.sample import by_the_machine
from tests.server.site import tiny_model
from tests.server.virtual.loop import played

CASES = by_the_machine(cases_in(Path(__file__).parent / "gateway"))


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Machines:
    """Gateways of the tests' tiny model."""
    home = tmp_path_factory.mktemp("machine")
    return Machines(home, tiny_model(home / "tiny"))


def marks_of(case: Case) -> list[pytest.MarkDecorator]:
    """What is known to fail must."""
    return [pytest.mark.xfail(reason=case.xfail, strict=True)] if case.xfail else []


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id, marks=marks_of(case)) for case in CASES])
def test_the_gateway_keeps_the_protocol_in_virtual_time(case: Case, machines: Machines):
    """One case, in one encoding."""
    try:
        played(play(case, machines))
    except BrokenPromise as broken:
        pytest.fail(str(broken), pytrace=False)
