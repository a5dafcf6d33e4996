"""Reports by tags: what SQL says of metadata is what Python says, in sums and lines, after a rebuild, an
erasure and a correction; the total stays."""

import json
import random
from dataclasses import replace

import msgspec
import pytest

from billing.booking import rollups
from billing.booking.adjustments import Correction, correct
from billing.ledger.declared_tags import tag_spans
from billing.ledger.tag_rollups import VALUE_CHARACTERS_MAX, TagSpan, tags_of
from billing.periods import HOUR_MS, LAST_MS, PeriodWindow
from billing.posting.biller import post
from billing.prices.rating import Meter
from billing.reports.chargeback import NOBODY, ChargebackQuestion, CostMatrix, Fact, TagFact
from billing.reports.chargeback_sums import read_matrix
from billing.reports.usage_questions import Facet
from billing.tables.ledger import RollupTag, TagKey, UsageLine
from billing.tables.tenants import UsageRow
from billing.tenants.tenancy import create_tenant
from billing.usage import UsageOwner, encode
from core.sql.database import Database, insert_rows
from tests.billing.events import an_event
from tests.billing.ledger.ledger_reading import read

BEGIN = 1_790_000_000_000 - 1_790_000_000_000 % HOUR_MS
DECLARED, WITHDRAWN = BEGIN + 3 * HOUR_MS + 7, BEGIN + 12 * HOUR_MS
TEXTS = ("search", "", "أحمد 😀", "=1+1", "a'\"\\b", "x" * 64, "y" * 65, "ü" * 90, "a\nb")
VALUES = (*TEXTS, 7, 1.5, True, None, [1], {})
WINDOW = PeriodWindow(BEGIN + 1, BEGIN + 16 * HOUR_MS - 1)


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        ("x" * VALUE_CHARACTERS_MAX, "x" * VALUE_CHARACTERS_MAX),
        ("x" * (VALUE_CHARACTERS_MAX + 1), "x" * (VALUE_CHARACTERS_MAX - 1) + "…"),
        ("", None),
        (7, None),
        ("a\0b", None),
    ],
)
def test_a_text_is_a_value_and_a_long_one_is_cut(value: object, tag: str | None):
    """What is none is no tag; neither is what a database cannot read."""
    assert tags_of({"team": value}, 5, [TagSpan("team", 5, 6)]).get("team") == tag


def test_a_tag_counts_from_its_declaration_until_it_is_withdrawn():
    """By the end of the request, and again once it is declared again."""
    spans = [TagSpan("team", 5, 7), TagSpan("team", 9, LAST_MS), TagSpan("env", 0, LAST_MS)]
    found = [tags_of({"team": "a", "other": "b"}, at, spans) for at in (4, 5, 6, 7, 8, 9)]
    assert [bool(each) for each in found] == [False, True, True, False, False, True]


async def tenant_with_tags(database: Database, chosen: random.Random, count: int = 60) -> str:
    """Of requests with and without, before and after the declaration."""
    tenant = (await create_tenant(database, "acme")).tenant_id
    async with database.transaction() as session:
        await insert_rows(
            session,
            [
                TagKey(tenant_id=tenant, key="team", since_ms=DECLARED, until_ms=WITHDRAWN),
                TagKey(tenant_id=tenant, key="team", since_ms=WITHDRAWN + HOUR_MS),
                TagKey(tenant_id=tenant, key="e.n-v", since_ms=0),
            ],
        )
    events = []
    for number in range(count):
        keys = [key for key in ("team", "e.n-v", "undeclared") if chosen.random() < 0.8]
        metadata = {key: chosen.choice(VALUES) for key in keys}
        if number == 7:
            metadata = {"team": "lost", "odd": "a\0b"}
        owner = UsageOwner("p1", "k1", chosen.choice(("u1", "u2")), metadata=msgspec.json.encode(metadata))
        ended = BEGIN + chosen.randrange(16 * HOUR_MS)
        facts = {"model": chosen.choice(("small", "large")), "ended_ms": ended}
        events.append(an_event(f"r{number:03}", tenant, owner=owner, **facts))
    await post(database, "default", [encode(event) for event in events])
    return tenant


async def expected(database: Database, question: ChargebackQuestion) -> dict[tuple[str, str], int]:
    """The same of each line by itself."""
    rows = {row.request_id: row for row in await read(database, UsageRow, question.tenant_id)}

    def value(fact: Fact, row: UsageRow) -> str:
        if isinstance(fact, TagFact):
            return tags_of(row.request_metadata, row.ended_ms, question.spans).get(fact.key, NOBODY)
        return row.model if fact is Facet.MODEL else row.user_id

    found: dict[tuple[str, str], int] = {}
    for line in await read(database, UsageLine, question.tenant_id):
        row = rows[line.request_id]
        tag = "" if question.only is None else value(question.only, row)
        wanted = question.only is None or (bool(tag) and question.only_value in ("", tag))
        if wanted and WINDOW.start_ms <= line.ended_ms < WINDOW.end_ms:
            key = value(question.rows, row), value(question.columns, row)
            found[key] = found.get(key, 0) + line.amount_nano
    return {key: nano for key, nano in found.items() if nano}


def cells_of(matrix: CostMatrix) -> dict[tuple[str, str], int]:
    """The cells that are not zero."""
    return {
        (row.value, column.value): nano
        for row, line in zip(matrix.rows, matrix.cells, strict=True)
        for column, nano in zip(matrix.columns, line, strict=True)
        if nano
    }


async def test_tags_are_told_apart_the_same_in_sums_and_in_lines(database: Database):
    """By a tag and a fact, two tags, only with a tag or a value; behind a correction, a rebuild, while the
    rollups lack lines. What was erased is not tagged, and the total stays."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    tenant = await tenant_with_tags(database, random.Random(seed))
    async with database.session() as session:
        spans = (await tag_spans(session, [tenant]))[tenant]
    team, env = TagFact("team"), TagFact("e.n-v")
    plain = ChargebackQuestion(tenant, WINDOW, team, Facet.MODEL, 99, 99, spans=spans)
    questions = [
        plain,
        replace(plain, rows=Facet.USER, columns=env),
        replace(plain, columns=env),
        replace(plain, rows=Facet.USER, only=team),
        replace(plain, rows=env, only=team, only_value="search"),
    ]

    async def agrees() -> None:
        for question in questions:
            found = cells_of(await read_matrix(database, question))
            assert found == await expected(database, question), question

    await agrees()
    before = await read(database, RollupTag, tenant)
    assert before
    await correct(database, tenant, Correction("r003", {Meter.INPUT: 99, Meter.OUTPUT: 1}, "c"))
    await agrees()
    known = await read(database, RollupTag, tenant)
    await rollups.rebuild(database, tenant)
    assert sorted(await read(database, RollupTag, tenant), key=str) == sorted(known, key=str)
    await agrees()
    assert json.loads(before[0].tags)
