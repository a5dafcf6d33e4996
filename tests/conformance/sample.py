"""Which cases every run plays over a real socket; `make test-long` plays them all. Pure."""

from collections.abc import Sequence

from tests.conformance.cases import Case

# What the encoding itself can break; elsewhere one case a file shows that msgpack says the same.
TWICE = ("codec", "send", "window", "resume")


def over_a_socket(cases: Sequence[Case]) -> list[Case]:
    """The sample."""
    first = {file_of(case): case.id for case in reversed(cases) if case.encoding == "msgpack"}
    twice = [case for case in cases if file_of(case) in TWICE or case.id in first.values()]
    return [case for case in cases if case.encoding == "json" or case in twice]


def file_of(case: Case) -> str:
    """The name of its file, without `.yaml`."""
    return case.id.partition("-")[0]
