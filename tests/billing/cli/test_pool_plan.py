"""Files of pools are read with the line of every fault, and compared with the pools that there are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.cli.pool_file import PoolFileError, pools_of, written
from billing.cli.pool_plan import PlannedAction, line_of, planned
from billing.operations.pool_facts import PoolStateName
from tests.billing.cli.made_pools import pool

FILE = """\
pools:
  - pool: eu-1
    model: m
    version: 4
    workers: 7
    labels: {zone: eu, gpu: h100}
    tenant: no
    let_in: [globex, acme]
  - pool: b
    tenant: ~
    state: draining
"""


def test_a_file_says_what_it_names_and_nothing_else() -> None:
    """Texts are as they are written, whatever YAML makes of `4` and `no`."""
    one, other = pools_of(FILE)
    assert (one.pool, one.facts["version"], one.facts["workers"], one.facts["tenant"]) == (
        "eu-1",
        "4",
        7,
        "no",
    )
    assert (one.facts["labels"], one.facts["let_in"]) == ({"zone": "eu", "gpu": "h100"}, ["acme", "globex"])
    assert other.facts == {"tenant": None, "state": PoolStateName.DRAINING}
    assert (one.line("version"), one.line(None), other.line("workers")) == (4, 2, 9)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", {1: "there is no `pools:`"}),
        ("- pool: a", {1: "begins with `pools:`"}),
        ("pools: 3", {1: "is a list"}),
        ("pool: []", {1: "did you mean pools?"}),
        ("pools:\n  - pool: a\n    workrs: 2", {3: "did you mean workers?"}),
        (
            "pools:\n  - pool: a\n    workers: two\n    state: gone",
            {3: "a whole number", 4: "active or draining"},
        ),
        ("pools:\n  - model: m\n  - a", {2: "has no name", 3: "begins with `- pool: NAME`"}),
        ("pools:\n  - pool: a\n    model:\n    model: m", {3: "this is a text", 4: "model is there twice"}),
        ("pools:\n  - pool: a\n  - pool: a", {3: "is in line 2 already"}),
        (
            "pools:\n  - pool: a\n    labels: [zone]\n    let_in: acme",
            {3: "NAME: VALUE", 4: "a list of tenants"},
        ),
        ("pools:\n  - pool: a\n   model: m", {3: "no YAML"}),
        ("pools: *a", {1: "no YAML"}),
        ("[" * 3000, {1: "no YAML"}),
    ],
)
def test_every_fault_is_told_with_its_line(text: str, faults: dict[int, str]) -> None:
    """All of them at once."""
    with pytest.raises(PoolFileError) as refused:
        pools_of(text)
    assert [line for line, _ in refused.value.faults] == list(faults)
    for _, told in refused.value.faults:
        assert any(words in told for words in faults.values()), told


@given(st.text())
def test_no_text_ends_in_anything_else(text: str) -> None:
    """It is a file of pools, or is told what is wrong."""
    try:
        pools_of(text)
    except PoolFileError as refused:
        assert refused.faults  # noqa: PT017


def test_what_was_written_plans_nothing() -> None:
    """With whatever a pool has."""
    full = pool("b", tenant="acme", project="p", let_in=["globex"], labels={"zone": "eu"}, version="4")
    pools = [pool(), full, pool("c", state=PoolStateName.DRAINING, workers=0, reserve_standard_tokens=9)]
    now = {each.pool: (each, 1) for each in pools}
    assert planned(pools_of(written(pools)), now, []) == []


def test_a_plan_says_what_changes_and_leaves_the_rest() -> None:
    """A pool that is not named is left alone, or drains where it is to be pruned, before others are made."""
    asked = pools_of("pools:\n  - pool: a\n    workers: 3\n    labels: {zone: eu}\n  - {pool: new, model: m}")
    now = {"a": (pool(), 7), "old": (pool("old"), 8), "over": (pool("over", state=PoolStateName.DRAINING), 9)}
    edit, create = planned(asked, now, [])
    assert (edit.action, edit.changes, edit.version) == (
        *(PlannedAction.EDIT, {"workers": (2, 3), "labels": ({}, {"zone": "eu"})}),
        7,
    )
    assert line_of(edit) == "~ a: edit workers 2 → 3, labels – → zone=eu"
    assert line_of(create) == "+ new: create model m"
    old, over, *rest = planned(asked, now, ["over", "old"])
    assert (line_of(old), line_of(over)) == (
        "- old: delete: it drains first",
        "- over: delete once it is empty",
    )
    assert rest == [edit, create]
    assert [each.frees for each in (old, edit, create)] == [True, False, True]
