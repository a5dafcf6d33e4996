"""A statement on tenants' data that names no tenant is refused in every test (INV-16)."""

import ast
import sys
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from sqlalchemy import delete, func, insert, not_, or_, text, tuple_, union_all, update
from sqlalchemy.orm import aliased
from sqlmodel import col, exists, select

from billing.tables.ledger import LedgerTxn, UsageLine
from billing.tables.tenants import ApiKey, PriceBook, Project, UsageRow
from core.sql.database import Database
from engine.models.tables import ModelVersion
from server.conversations.tables import Conversation, Message
from tests.support.statements import (
    ALLOWED,
    ROOT,
    WATCH,
    NoTenantNamedError,
    StatementWatch,
    allowed_by,
    fail_if_refused,
    maker_of,
    pytest_runtest_call,
    pytest_runtest_setup,
    pytest_runtest_teardown,
    pytest_sessionfinish,
    pytest_testnodedown,
    verdict,
)
from tests.support.tenants_named import tables_of_tenants, unbound

KEY, PROJECT = col(ApiKey.tenant_id), col(Project.tenant_id)
LINE, TXN = col(UsageLine.tenant_id), col(LedgerTxn.tenant_id)
IDS = col(Conversation.id).in_(["c1", "c2"])
SUMS = select(LINE, func.sum(col(UsageLine.amount_nano)).label("amount")).group_by(LINE).subquery()
OTHER = aliased(ApiKey)
EITHER = union_all(select(Project.id).where(PROJECT == "acme"), select(ApiKey.id)).subquery()
OF_ACME = select(LedgerTxn).where(TXN == "acme").subquery()

NAMED: dict[str, Any] = {
    "by a value": select(ApiKey).where(KEY == "acme", col(ApiKey.id) == "k1"),
    "as one of some": select(ApiKey).where(KEY.in_(["acme", "emca"])),
    "as a part of a row's name": select(ApiKey).where(tuple_(KEY, col(ApiKey.id)).in_([("acme", "k1")])),
    "as nobody's": select(PriceBook).where(col(PriceBook.tenant_id).is_(None)),
    "of both tables of a join": select(ApiKey).join(Project, PROJECT == KEY).where(KEY == "acme"),
    "of a join, in its condition": select(ApiKey).join(Project, (PROJECT == KEY) & (PROJECT == "acme")),
    "in what must not exist": select(Conversation).where(
        col(Conversation.tenant_id) == "acme",
        ~exists().where(col(Message.tenant_id) == Conversation.tenant_id),
    ),
    "outside of a subquery": select(SUMS.c.amount).where(SUMS.c.tenant_id == "acme"),
    "in each branch": select(ApiKey).where(or_(KEY == "acme", (KEY == "emca") & (col(ApiKey.id) == "k1"))),
    "by a table of no tenant beside it": select(ApiKey, ModelVersion).where(KEY == "acme"),
    "in a select within": select(Project).where(
        PROJECT.in_(select(KEY).where(KEY == "acme")),
        col(Project.id).in_(select(ApiKey.id).where(KEY == "acme")),
    ),
    "in both parts of a union": union_all(
        *(select(each.id).where(each.tenant_id == "a") for each in (ApiKey, Project))
    ),
    "by way of a subquery": select(UsageLine)
    .join(OF_ACME, OF_ACME.c.tenant_id == UsageLine.tenant_id)
    .where(UsageLine.seq == OF_ACME.c.last_line_seq),
    "of three tables, by way of the second": select(ApiKey)
    .join(Project, (PROJECT == KEY) & (PROJECT == "acme"))
    .join(PriceBook, col(PriceBook.tenant_id) == KEY),
    "outside, by way of another table": select(ApiKey, Project).where(
        PROJECT == KEY,
        exists().where(col(Message.tenant_id) == PROJECT, KEY == "acme").correlate(ApiKey, Project),
        KEY == "acme",
    ),
    "in an insert's select": insert(Project).from_select(["id"], select(ApiKey.id).where(KEY == "acme")),
    "in an update": update(Conversation).where(IDS, col(Conversation.tenant_id) == "acme").values(title=""),
    "in a deletion": delete(Conversation).where(IDS, col(Conversation.tenant_id) == "acme"),
    "where there is none": select(ModelVersion).where(ModelVersion.name == "m"),
    "in words": text("SELECT 1 FROM api_key WHERE tenant_id = 'acme'"),
    "in words of no table": text("SELECT lock(tenant) FROM unnest(:tenants) AS tenant"),
}
UNNAMED: dict[str, Any] = {
    "not at all": select(ApiKey).where(col(ApiKey.id) == "k1"),
    "among what is selected": select(KEY, col(ApiKey.id)).where(col(ApiKey.id) == "k1"),
    "in the order": select(ApiKey.id).order_by(KEY),
    "in the groups": select(KEY, func.count()).group_by(KEY),
    "as another one": select(ApiKey).where(KEY != "acme"),
    "as one that it is not": select(ApiKey).where(not_(KEY == "acme")),
    "as one after": select(ApiKey).where(KEY > "acme"),
    "in one branch": select(ApiKey).where(or_(KEY == "acme", col(ApiKey.shared))),
    "by the other table only": select(ApiKey).join(Project, PROJECT == KEY),
    "of one of two tables": select(ApiKey, Project).where(KEY == "acme", ApiKey.project_id == Project.id),
    "as what it is anyway": select(ApiKey).where(KEY == KEY),
    "in a subquery's list": select(SUMS.c.amount),
    "in what must exist only": select(Conversation).where(exists().where(col(Message.tenant_id) == "acme")),
    "in what must not exist only": select(Conversation).where(
        ~exists().where(col(Message.tenant_id) == Conversation.tenant_id, col(Message.tenant_id) == "acme")
    ),
    "in a select within": select(ApiKey).where(KEY == "acme", col(ApiKey.id).in_(select(Project.id))),
    "in one part of a union": union_all(select(Project.id).where(PROJECT == "acme"), select(ApiKey.id)),
    "in an update": update(Conversation).where(IDS).values(title=""),
    "in what an update sets": update(Conversation).where(IDS).values(tenant_id="acme"),
    "in an insert's select": insert(Project).from_select(["id"], select(ApiKey.id)),
    "in a deletion": delete(Conversation).where(IDS),
    "by another name": select(aliased(ApiKey)).where(col(ApiKey.shared)),
    "as anybody's": select(ApiKey).where(KEY.is_not(None)),
    "as one like it": select(ApiKey).where(KEY.like("ac%")),
    "in one part of a union that it selects from": select(EITHER.c.id),
    "under another name only": select(OTHER.id).where(OTHER.shared),
    "of the first of three tables": select(ApiKey)
    .join(Project, PROJECT == "acme")
    .join(PriceBook, col(PriceBook.tenant_id) == "acme"),
    "in words": text("SELECT 1 FROM api_key"),
    "in quoted words": text('UPDATE "plan" SET name = 1'),
}


@pytest.mark.parametrize("how", NAMED)
def test_a_tenant_is_named(how: str) -> None:
    """Every row that the statement can meet is of a tenant that it says."""
    assert unbound(NAMED[how]) == set()


@pytest.mark.parametrize("how", UNNAMED)
def test_a_tenant_is_not_named(how: str) -> None:
    """INV-16: the statement meets other tenants' rows too, and is refused, by its tables' own names."""
    found = unbound(UNNAMED[how])
    assert found
    assert found <= tables_of_tenants()


def test_the_tables_are_known() -> None:
    """All with a tenant_id, whatever their keys are; no others."""
    tables = tables_of_tenants()
    assert len(tables) > 40
    assert {"usage_line", "price", "message", "noisy_finding", "outbox"} <= tables
    assert not tables & {"model_version", "gpu_cost", "pool_interval"}


PRODUCT = """
async def read(db, statement, keep_alive=False):
    try:
        async with db.session() as session:
            return (await session.exec(statement)).all()
    except AssertionError:
        if not keep_alive:
            raise

async def look(db, statement):
    async with db.reading() as connection:
        return (await connection.execute(statement)).all()
"""


def made_up(name: str) -> Callable[..., Awaitable[Any]]:
    """A function as it would be in the product."""
    names = dict[str, Any]()
    exec(compile(PRODUCT, str(ROOT / "billing" / "made_up.py"), "exec"), names)
    return names[name]


@pytest.mark.parametrize("how", ["not at all", "among what is selected"])
async def test_a_statement_of_the_product_is_refused(
    how: str, sqlite: Database, request: pytest.FixtureRequest
) -> None:
    """Where it is made, over a session or not; one that names the tenant passes."""
    for function in ("read", "look"):
        with pytest.raises(
            NoTenantNamedError, match=f"billing/made_up.py {function} names no tenant of api_key"
        ):
            await made_up(function)(sqlite, UNNAMED[how])
        with pytest.raises(NoTenantNamedError):
            fail_if_refused(request.node)
        assert await made_up(function)(sqlite, NAMED["by a value"]) == []


async def test_a_refusal_fails_the_test(sqlite: Database, request: pytest.FixtureRequest) -> None:
    """Also where a loop that is kept alive swallowed the exception; and once only."""
    await made_up("read")(sqlite, select(UsageRow), keep_alive=True)
    with pytest.raises(NoTenantNamedError, match="usage_event"):
        fail_if_refused(request.node)
    fail_if_refused(request.node)


def test_whatever_reads_or_changes_rows_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """However it is written; and on each of its tables, of which another may be allowed."""
    monkeypatch.setattr("tests.support.statements.maker_of", lambda _: "billing/made_up.py f")
    watch, maker = StatementWatch({"billing/made_up.py f": {"plan"}}), "billing/made_up.py f"
    for words in (
        "SELECT 1 FROM api_key",
        "\n  select 1 from api_key",
        "UPDATE api_key SET id = 1",
        "DELETE FROM api_key",
        "INSERT INTO api_key VALUES (1)",
        "WITH x AS (SELECT 1 FROM api_key) SELECT 1 FROM x",
        "(SELECT 1 FROM api_key)",
        "SELECT 1 FROM plan JOIN api_key ON true",
    ):
        with pytest.raises(NoTenantNamedError, match=f"{maker} names no tenant of api_key "):
            watch.asked(None, None, words, None, None, False)
    watch.asked(None, None, "PRAGMA table_info(api_key) -- FROM api_key", None, None, False)
    assert (len(watch.refused), watch.used, watch.unused()) == (8, {f"{maker} plan"}, [])


class _Config(SimpleNamespace):
    """Of a run, as far as it is asked here."""

    def __init__(self, **asked: Any) -> None:
        options = {"keyword": "", "collectonly": False, "markexpr": "not long"} | asked
        source = options.pop("source", pytest.Config.ArgsSource.TESTPATHS)
        super().__init__(option=SimpleNamespace(**options), args_source=source, stash=pytest.Stash())
        self.stash[WATCH] = StatementWatch({"billing/a.py f": {"plan"}})


@pytest.mark.parametrize(
    ("asked", "is_whole"),
    [
        ({}, True),
        ({"markexpr": ""}, True),
        ({"markexpr": "long"}, False),
        ({"keyword": "x"}, False),
        ({"collectonly": True}, False),
        ({"lf": True}, False),
        ({"source": pytest.Config.ArgsSource.ARGS}, False),
    ],
)
def test_a_whole_run_is_red_where_an_entry_is_nobodys(asked: dict[str, Any], is_whole: bool) -> None:
    """A run of some tests is not."""
    config: Any = _Config(**asked)
    session: Any = SimpleNamespace(config=config, exitstatus=pytest.ExitCode.OK)
    pytest_sessionfinish(session)
    assert (session.exitstatus == pytest.ExitCode.TESTS_FAILED) is is_whole
    assert ("billing/a.py f plan" in config.stash[WATCH].told) is is_whole


def test_what_a_workers_tests_used_is_used() -> None:
    """It hands it over at its end, and judges nothing."""
    worker, config = _Config(), _Config()
    worker.workerinput, worker.workeroutput = {}, {}
    worker.stash[WATCH].used = {"billing/a.py f plan"}
    session: Any = SimpleNamespace(config=worker, exitstatus=pytest.ExitCode.OK)
    pytest_sessionfinish(session)
    assert session.exitstatus == pytest.ExitCode.OK
    pytest_testnodedown(SimpleNamespace(config=config, workeroutput=worker.workeroutput))
    assert config.stash[WATCH].unused() == []


async def test_a_test_may_ask_anything(sqlite: Database) -> None:
    """Its own statements are no product's."""
    async with sqlite.session() as session:
        assert (await session.exec(select(ApiKey))).all() == []


def test_an_entry_is_of_one_function_and_its_tables() -> None:
    """What is allowed to a function is not allowed to another, nor on other tables."""
    allowed = allowed_by("- why: x\n  made:\n    billing/a.py f: price plan\n    billing/a.py g: price\n")
    assert allowed == {"billing/a.py f": {"price", "plan"}, "billing/a.py g": {"price"}}
    with pytest.raises(ValueError, match="twice"):
        allowed_by("- why: x\n  made: {a f: price}\n- why: y\n  made: {a f: plan}\n")
    watch = StatementWatch(allowed)
    watch.used = {"billing/a.py f price", "billing/a.py g price"}
    assert watch.unused() == ["billing/a.py f plan"]


def test_an_entry_that_nobody_uses_fails_a_whole_run() -> None:
    """A run of some tests says nothing of it."""
    assert not verdict([], is_whole=True)
    assert not verdict(["billing/a.py f plan"], is_whole=False)
    assert "billing/a.py f plan" in verdict(["billing/a.py f plan"], is_whole=True)


def test_every_entry_is_of_a_function_that_stands() -> None:
    """With its reason, on tables that are tenants'."""
    assert all(entry["why"].endswith(".") for entry in yaml.safe_load(ALLOWED.read_text()))
    for maker, tables in allowed_by(ALLOWED.read_text()).items():
        file, _, function = maker.partition(" ")
        assert function.split(".<locals>")[0] in functions_in(ROOT.joinpath(file).read_text()), maker
        assert tables <= tables_of_tenants(), maker


def functions_in(text: str) -> set[str]:
    """Those of a module and of its classes, as tracebacks name them."""
    tree = ast.parse(text)
    found = set[str]()
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) else []
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for each in inner or [node]:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(prefix + each.name)
    return found


@pytest.mark.parametrize("hook", [pytest_runtest_setup, pytest_runtest_call, pytest_runtest_teardown])
def test_a_refusal_fails_whatever_made_the_statement(hook: Callable[[Any], Any]) -> None:
    """A fixture as it begins, the test, or a fixture as it ends."""
    item: Any = SimpleNamespace(config=_Config())
    item.config.stash[WATCH].refused = ["billing/a.py f names no tenant"]
    around = hook(item)
    next(around)
    with pytest.raises(NoTenantNamedError, match="names no tenant"):
        next(around)
    around = hook(item)
    next(around)
    with pytest.raises(StopIteration):
        next(around)


@pytest.mark.parametrize(
    "maker", ["core/migrations/versions/v0001_x.py upgrade", "tests/core/test_x.py f", "chaos/x.py f", ""]
)
def test_who_is_no_product_is_not_judged(maker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration is of all tenants, and tests and chaos look at what they like."""
    monkeypatch.setattr("tests.support.statements.maker_of", lambda _: maker)  # pyright: ignore[reportUnknownLambdaType]
    watch = StatementWatch({})
    watch.asked(None, None, "SELECT 1 FROM api_key", None, None, False)
    assert watch.refused == []


def test_who_hands_on_what_others_ask_is_not_their_maker() -> None:
    """A statement is of the function that has it made, not of the one through which all of them go."""
    names = dict[str, Any]()
    for file, lines in (
        ("core/sql/database.py", "def hand_on(look): return look()"),
        ("billing/made_up.py", "def f(look): return hand_on(look)"),
    ):
        exec(compile(lines, str(ROOT / file), "exec"), names)

    def who() -> str:
        return maker_of(sys._getframe(1))

    assert names["f"](who) == "billing/made_up.py f"
