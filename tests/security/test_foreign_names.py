"""A command about one tenant does nothing to another one, whosever ids are typed."""

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result

from billing.people.person_sessions import open_person_session
from billing.people.persons import create_member
from billing.tables.runs import OperationRun
from billing.tenants.tenancy import find_tenant
from core.clock import now_ms
from core.errors import StartupError
from core.operations import Role
from core.sql.database import Database
from engine.operations import requests
from tests.billing.cli.audited_office import COMMANDS, CommandsOffice, named, office
from tests.security.typist import FILLING, STAY, Typist, first
from tests.support.models import add_model
from tests.support.redis import Redis

__all__ = ["office"]

# They end the tenant that they are about, so they come last.
LAST = ("tenants erase", "tenants close", "users erase")
ALL_TENANTS = {"audit list"}  # the typist names none there
MADE_BY_LOOKING = {"ledger_head"}  # empty, of whoever looks for sums
NEVER_SHOWN = ("ops@example.com", "research")


def words(text: str) -> set[str]:
    """Each of them."""
    return set(text.split())


# What is typed about a tenant with a name of what another one has: each is refused as one that nobody has is.
FOREIGN = (
    "alerts retry --tenant {other} {message}",
    "alerts targets remove --tenant {other} {target}",
    "alerts test --tenant {other} {target}",
    "budgets end --tenant {other} {budget}",
    "budgets override --tenant {other} {budget} --limit 9USD --until 2099-01-01",
    "budgets set --tenant {other} --limit 5USD --scope project --of {project}",
    "budgets set --tenant {other} --limit 5USD --scope key --of {key}",
    "budgets show --tenant {other} {budget}",
    "connections list --tenant {other} --user alice",
    "keys create --tenant {other} --project {project}",
    "keys sign-in-link --tenant {other} --user ann {key}",
    "keys revoke --tenant {other} {key}",
    "keys show --tenant {other} {key}",
    "keys edit --tenant {other} {key} --name own",
    "keys rotate --tenant {other} {key}",
    "limits end --tenant {other} {limit}",
    "limits edit --tenant {other} {limit} --limit 3",
    "limits set --tenant {other} --scope project --of {project} --dimension concurrency --limit 2",
    "limits set --tenant {other} --scope key --of {key} --dimension concurrency --limit 2",
    "limits show --tenant {other} {limit}",
    "people close --tenant {other} {person} --reason why",
    "people end-session --tenant {other} {person} {person_session}",
    "people edit --tenant {other} {person} --name new",
    "people forget-totp --tenant {other} {person}",
    "people link --tenant {other} {person}",
    "people reopen --tenant {other} {person}",
    "people role --tenant {other} {person} admin",
    "people sessions --tenant {other} {person}",
    "people show --tenant {other} {person}",
    "people withdraw --tenant {other} {invitation}",
    "pools create new --model m --tenant {other} --project {project}",
    "pools edit a --tenant {other} --project {project}",
    "pools commit --tenant {other} --gpu h200 --gpus 2 --rate 2.40USD --days 30 --pool a",
    "pools end-commitment --tenant {other} {gpu_commitment} --reason why",
    "prices import {parent}",
    "prices end-commitment --tenant {other} {commitment} --reason why",
    "projects close --tenant {other} {project}",
    "cost-centers close --tenant {other} {cost_center}",
    "cost-centers close --tenant {other} --move-to {cost_center} {own_center}",
    "cost-centers reopen --tenant {other} {cost_center}",
    "projects charge-to --tenant {other} {own_project} {cost_center}",
    "projects charge-to --tenant {other} {project} {own_center}",
    "projects reopen --tenant {other} {project}",
    "chargeback schedule delete --tenant {other} {schedule}",
    "charges explain billed --tenant {other}",
    "requests cancel billed --tenant {other}",
    "requests explain billed --tenant {other}",
    "requests find --tenant {other} --key {key}",
    "requests find --tenant {other} --project {project}",
    "requests find --tenant {other} --user alice",
    "requests show billed --tenant {other}",
    "runs show --tenant {other} {run}",
    "runs stop --tenant {other} {run}",
    "safety history --tenant {other} --project {project}",
    "safety set --remove --tenant {other} --project {project} --reason why --yes",
    "safety show --tenant {other} --project {project}",
    "safety try hello --tenant {other} --project {project}",
    "sessions revoke --tenant {other} {session}",
    "tenants create third --price-book {book}",
    "tokens revoke --tenant {other} {token}",
    "tenants set {other} --price-book {book}",
    "plans create own --price-book {book}",
    "usage correct --tenant {other} billed --cause c1 --output 9",
    "usage refund --tenant {other} billed --cause c1",
    "users erase --tenant {other} alice --yes",
    "users export --tenant {other} alice",
    "users reopen --tenant {other} alice",
    "wallets claw-back --tenant {other} {grant} --amount 1USD --key c1 --reason why",
    "wallets void --tenant {other} {grant} --reason why",
)
# Words of a command that name a thing of a tenant, and those that name none, or a new one.
NAMING = words(
    "budget commitment cost_center grant invitation key limit_id message move_to named of person pool "
    "price_book project request request_id run schedule session target token user"
)
NAMING_NONE = words(
    "reason notice_days notice_months mistake tenant "
    "platform messages as_json webhook email since kept heads ended until ends scope period soft "
    "thresholds limit code name shared scopes priority_max expires_days expires url cancel "
    "overlap_hours dimension burst models weight slots_max tokens_max reserve_tokens gpu_type gpus "
    "rate days overage payment month region dry_run amount first months meter model units file start "
    "checks whole everything all_pools watch repair status dest operators yes time_zone regex shows_costs "
    "cache_by input_tokens cached_input_tokens output_tokens cause issuer out by end as_of as_csv "
    "origins any_origin which to_nobody "
    "kind priority note history last plan book ids over_ms cost_over_nano after since until other "
    "force author mode role gpu as_never_made input cached_input output paid_by version "
    "labels let_in state reserve_interactive_tokens reserve_standard_tokens workers "
    "to term refused as_merged as_prompt number remove text text_file with_diff loosen "
    "seen against rows columns only top_rows top_columns format day every operation "
)
# These name a thing of theirs by a word that means another thing elsewhere.
NUMBERS = {
    ("audit list", "target"),
    ("charges day", "of"),
    ("charges requests", "of"),
}  # narrows what is listed of the tenant's own
ANY_POOL = {
    "pools move",
    "requests cancel",
    "requests find",
    "requests list",
    "requests migrate",
    "requests show",
}  # where to look
OWN_KEY = {
    "chargeback tags declare",
    "chargeback tags withdraw",
    "wallets claw-back",
    "wallets grant",
    "wallets pay-out",
}  # a word of its requests' own; what makes a grant the same: within the tenant
OWN_USER = {"keys create", "keys sign-in-link", "users close", "users create"}  # makes known who is not
KNOWN = {"prices import {parent}"}  # by operators: a file
NOT_BY_ID = {"sessions revoke"}  # `user`: those who are signed in at the tenant


def rows_of(file: Path, tenant: str) -> dict[str, list[tuple[object, ...]]]:
    """All that a tenant has, by table."""
    with closing(sqlite3.connect(file)) as connection:
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        theirs = [
            name
            for name in tables
            if name not in MADE_BY_LOOKING
            and "tenant_id" in {each[1] for each in connection.execute(f"PRAGMA table_info({name})")}
        ]
        return {
            name: connection.execute(
                f"SELECT * FROM {name} WHERE tenant_id = ? ORDER BY rowid", [tenant]
            ).fetchall()
            for name in theirs
        }


def about_tenants() -> set[str]:
    """The commands that are about one tenant."""
    return {
        name for name, command in COMMANDS.items() if any(each.name == "tenant" for each in command.params)
    }


@pytest.fixture
async def typist(
    office: CommandsOffice,
    home: Path,
    redis: Redis,
    redis_url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Typist:
    """Of the tenant `other`, beside acme, who has one of everything."""
    await asyncio.to_thread(office.on_database, lambda db: add_model(db, "m"))
    for line in (*FILLING, "tenants create other"):
        result = await asyncio.to_thread(office.run, line.format(**office.facts))
        assert result.exit_code == 0, (line, result.output, result.exception)
    monkeypatch.setenv("PARLEY_HOME", str(home))
    monkeypatch.setenv("PARLEY_REDIS_URL", redis_url)
    monkeypatch.setattr(requests, "CANCEL_SECONDS_MAX", 0.0)
    await asyncio.to_thread(office.on_database, a_member)
    return Typist(home / "parley.db", capsys, monkeypatch)


async def a_member(db: Database) -> None:
    """Somebody who signs in for acme, and is signed in."""
    tenant = await find_tenant(db, "acme")
    assert tenant is not None
    mia = await create_member(db, tenant.tenant_id, "Mia", Role.VIEWER)
    async with db.transaction() as session:
        await open_person_session(session, mia.person, mia.membership, "", "")
        now = now_ms()
        session.add(
            OperationRun(
                tenant_id=tenant.tenant_id,
                id="r1",
                caller=mia.person.id,
                author="Mia",
                operation="requests.migrate_all",
                state="done",
                events="[]",
                answer="null",
                problem="null",
                begun_ms=now,
                beat_ms=now,
            )
        )


async def test_no_command_reaches_into_another_tenant(typist: Typist, home: Path):
    """All that take a tenant, with ids of keys, projects, users, limits, budgets, targets of another one."""
    file = home / "parley.db"
    acme = typist.values["tenant"]
    typist.values["tenant"] = first(file, "SELECT tenant_id FROM tenant WHERE name = 'other'")
    before = rows_of(file, acme)
    assert sum(map(len, before.values())) > 20
    about = about_tenants()
    for name in sorted(about - STAY - ALL_TENANTS, key=lambda name: (name in LAST, name)):
        await asyncio.to_thread(typist.type, name, known=True)
        after = rows_of(file, acme)
        assert {table for table in before if before[table] != after[table]} == set(), name
        assert not [shown for shown in NEVER_SHOWN if shown in typist.said], (name, typist.said[-500:])
    assert len(about) > 20


def test_every_word_that_names_a_thing_of_a_tenant_is_tried() -> None:
    """A new word of a command must say here whether it names something, and one that does is in FOREIGN."""
    tried = {named(line) for line in FOREIGN}
    for name in about_tenants() | {"tenants create", "plans create"}:
        typed = {str(each.name) for each in COMMANDS[name].params}
        assert typed <= NAMING | NAMING_NONE, (name, typed - NAMING - NAMING_NONE)
        naming = {word for word in typed & NAMING if (name, word) not in NUMBERS}
        naming -= {"pool"} if name in ANY_POOL else set()
        naming -= {"key"} if name in OWN_KEY else set()
        naming -= {"user"} if name in OWN_USER | NOT_BY_ID else set()
        assert not naming or name in tried, (name, naming)


async def test_a_name_of_another_tenants_is_refused_as_one_that_nobody_has(
    office: CommandsOffice, typist: Typist, home: Path
):
    """Each in one line, and nothing of either is changed."""
    file = home / "parley.db"
    for line in (
        "projects create --tenant other own",
        "cost-centers create --tenant other 7",
    ):
        assert (await asyncio.to_thread(office.run, line)).exit_code == 0
    for name, text in (
        ("book", 'book = "acmes"\ntenant = "acme"'),
        ("parent", 'book = "others"\ntenant = "other"\nparent = "acmes"'),
    ):
        path = home / f"{name}.toml"
        path.write_text(f'{text}\n[models."*"]\ninput = "1"\noutput = "1"\n')
        office.facts[name] = str(path)
    for line in (
        "chargeback schedule add --tenant acme",
        f"prices import {office.facts['book']}",
        f"alerts test --tenant acme {typist.values['target']}",
    ):
        assert (await asyncio.to_thread(office.run, line)).exit_code == 0
    acme, other = typist.values["tenant"], first(file, "SELECT tenant_id FROM tenant WHERE name = 'other'")
    facts = typist.values | office.facts
    facts |= {"other": "other", "own_project": "own", "own_center": "7", "book": "acmes"}
    facts["gpu_commitment"] = first(file, "SELECT id FROM commitment")
    facts["schedule"] = first(file, "SELECT id FROM report_schedule")
    facts["person"] = first(file, "SELECT id FROM person")
    facts["person_session"] = first(file, "SELECT id FROM person_session")
    facts["invitation"] = first(file, "SELECT id FROM invitation")
    facts["run"] = first(file, "SELECT id FROM operation_run")
    facts["token"] = first(file, "SELECT id FROM service_token")
    facts["message"] = first(file, f"SELECT id FROM outbox WHERE tenant_id = '{acme}'")
    nobodys = facts | {
        name: f"nobodys_{name}" for name in facts.keys() - {"other", "own_project", "own_center"}
    }
    before = {tenant: rows_of(file, tenant) for tenant in (acme, other)}
    wrong: list[object] = []
    for line in FOREIGN:
        result = await asyncio.to_thread(office.run, line.format(**facts))
        if not isinstance(result.exception, StartupError):
            wrong.append((line, result.output, result.exception))
        elif line not in KNOWN:
            unknown = await asyncio.to_thread(office.run, line.format(**nobodys))
            said = [_as_typed(each, line) for each in ((result, facts), (unknown, nobodys))]
            wrong += [(line, *said)] if said[0] != said[1] else []
        for tenant, was in before.items():
            now = before[tenant] = rows_of(file, tenant)
            wrong += [(line, table, now[table]) for table in now if was[table] != now[table]]
    assert wrong == []


def _as_typed(said: tuple[Result, dict[str, str]], line: str) -> str:
    """The line that refuses, with the words of `line` where it names what they stand for."""
    result, facts = said
    text = str(result.exception)
    for word in re.findall(r"{(\w+)}", line):
        text = text.replace(facts[word], word)
    return text
