"""Which cases every run plays in virtual time, and which of them over a real socket besides. `make test-long`
plays all over a socket, in both encodings. Pure."""

from collections.abc import Iterable, Sequence

from tests.conformance.cases import Case, Connect, ExpectClose, RawStep, SendRaw, SkipUntilClose

# What the encoding itself can break; elsewhere one case a file shows that msgpack says the same.
TWICE = ("codec", "send", "window", "resume")
EACH = 6


def by_the_machine(cases: Sequence[Case]) -> list[Case]:
    """Every case in JSON, and in msgpack those of TWICE and one of each other file."""
    first = _first_of_files(case for case in cases if case.encoding == "msgpack")
    here = [case for case in cases if case.encoding == "json" or file_of(case) in TWICE or case in first]
    return [case for case in here if case.socket != "only"]


def over_a_socket(cases: Sequence[Case]) -> list[Case]:
    """One case of each file in each encoding, what only a socket shows (upgrades, each close code, frames of
    another kind), and every sixth. Of files that wait, what is marked."""
    plain = [case for case in cases if case.encoding == "json"]
    closes = {code: case for case in reversed(plain) if not case.lane for code in _closes(case)}
    chosen = [
        *_first_of_files(plain),
        *_first_of_files(case for case in cases if case.encoding == "msgpack"),
        *plain[::EACH],
        *closes.values(),
        *(case for case in plain if _upgrades(case)),
    ]
    said = {case.id.removesuffix("json") for case in plain}
    marked = [
        c for c in cases if c.socket and (c.encoding == "json" or c.id.removesuffix("msgpack") not in said)
    ]
    ids = {case.id for case in marked} | {case.id for case in chosen if not case.lane}
    return [case for case in cases if case.id in ids]


def file_of(case: Case) -> str:
    """The name of its file, without `.yaml`."""
    return case.id.partition("-")[0]


def _first_of_files(cases: Iterable[Case]) -> list[Case]:
    return list({file_of(case): case for case in reversed(list(cases))}.values())


def _closes(case: Case) -> set[int]:
    """The codes that the server closes with in it."""
    expected = {step.expect_close for step in case.steps if isinstance(step, ExpectClose)}
    return expected | {step.skip_until_close for step in case.steps if isinstance(step, SkipUntilClose)}


def _upgrades(case: Case) -> bool:
    """Whether it is about the upgrade or about a frame's kind."""
    connects = [step for step in case.steps if isinstance(step, Connect)]
    raws: list[RawStep] = [step.raw for step in case.steps if isinstance(step, SendRaw)]
    upgrade = any(step.headers or step.subprotocol or step.refused for step in connects)
    return upgrade or any(raw.not_utf8 is not None for raw in raws)
