"""Somebody who types what names must not do."""

import contextlib
import json
import os
import sqlite3
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest

from core.cli import main
from tests.billing.cli.audited_office import COMMANDS

WORDS = "what nobody but its reader may see"

HOSTILE = "=cmd()[/x]\x1b]0;x\x07\u202e\r\n\x9b31m"

# Processes, which stay; what they print is what `say` prints.
STAY = {"up", "gateway", "worker", "supervisor", "fleet", "biller", "chat", "console"}

# What the office used is of the first month that there is.
MORE = {
    "usage export": ["--month", "1970-01"],
    "usage compare": ["--month", "1970-02", "--to-month", "1970-01", "--by", "model"],
    "usage show": ["--month", "1970-01", "--by", "user"],
    "reconcile": ["--show-equal"],
}

# What makes rows with names in them, in this order; the office has a tenant and an event.
FILLING = (
    "projects create --tenant acme research",
    "cost-centers create --tenant acme 4711 --name all",
    "users create --tenant acme alice",
    "keys create --tenant acme --name mine --user alice",
    "plans create gold --weight 2",
    "pools create a --model m --tenant acme",
    "pools commit --tenant acme --gpu h200 --gpus 2 --rate 2.40USD --days 30 --pool a",
    "pools costs --gpu h200 --hour 1.10USD",
    "prices import {prices}",
    "prices commit --tenant acme --amount 100USD --model large --meter output --units 1000000",
    "limits set --tenant acme --scope user --of alice --dimension concurrency --limit 2",
    "budgets set --tenant acme --limit 5USD --scope user --of alice",
    "wallets grant --tenant acme --amount 5USD --key k1 --note n",
    "alerts targets add --tenant acme --email ops@example.com",
    "safety set {policy} --tenant acme --reason why --yes",
    "people invite --tenant acme ivy@example.com --role viewer",
    "tokens create --tenant acme nightly --role viewer",
)


def harmless(text: str) -> bool:
    """Whether there is nothing in it that a terminal obeys."""
    bad = ("Cc", "Cf", "Zl", "Zp", "Cs")
    return all(each == "\n" or unicodedata.category(each) not in bad for each in text)


def first(file: Path, query: str) -> str:
    """The first value that a query finds."""
    with closing(sqlite3.connect(file)) as connection:
        found = connection.execute(query).fetchone()
    return str(found[0]) if found else HOSTILE


class Typist:
    """Types every command with whatever arguments it needs."""

    def __init__(
        self, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        self.said = ""
        self.told_words = set[str]()
        self.values = {
            "tenant": first(file, "SELECT tenant_id FROM tenant"),
            "key": first(file, "SELECT id FROM api_key"),
            "project": first(file, "SELECT id FROM project"),
            "plan": first(file, "SELECT name FROM plan"),
            "user": first(file, "SELECT name FROM tenant_user"),
            "limit": first(file, "SELECT id FROM quota_policy"),
            "budget": first(file, "SELECT id FROM budget"),
            "target": first(file, "SELECT id FROM alert_target"),
            "cost_center": first(file, "SELECT id FROM cost_center"),
            "commitment": first(file, "SELECT id FROM period_commitment"),
            "event": first(file, "SELECT event_sha256 FROM usage_quarantine"),
            "grant": first(file, "SELECT id FROM wallet_grant"),
            "finding": "f1",
            "message": HOSTILE,
        }

    def type(self, name: str, *, known: bool, as_json: bool = False) -> None:
        """One command. `known`: about what there is, else about hostile names that nobody has."""
        arguments = [*self._arguments(name, COMMANDS[name], known), *MORE.get(name, [])]
        as_json = as_json and any(each.name == "as_json" for each in COMMANDS[name].params)
        self._monkeypatch.setattr(sys, "argv", ["parley", *name.split(), *arguments, *["--json"] * as_json])
        before = os.umask(0o022)
        try:
            with contextlib.suppress(SystemExit):
                main()  # narrows what files of this process are open to
        finally:
            os.umask(before)
        out, err = self._capsys.readouterr()
        assert harmless(out + err), (name, out, err)
        assert out + err or not known or as_json, name
        if as_json:
            assert all(isinstance(json.loads(line), dict) for line in out.splitlines()), (name, out)
        self.said += out + err
        if WORDS in out + err:
            self.told_words.add(name)

    def _arguments(self, name: str, command: click.Command, known: bool) -> Iterator[str]:
        for each in command.params:
            wanted = each.required or each.name in ("tenant", "once", "resolved", "history")
            if not wanted or (each.name == "tenant" and name == "audit list"):
                continue
            option = [each.opts[0]] if isinstance(each, click.Option) else []
            if isinstance(each, click.Option) and each.is_flag:
                yield from option * known
            else:
                yield from (*option, self._value(each, known))

    def _value(self, parameter: click.Parameter, known: bool) -> str:
        match parameter.type:
            case click.Choice() as choice:
                return str(choice.choices[0])
            case click.types.IntParamType() | click.types.FloatParamType():
                return "1"
            case click.Path():
                return "/dev/null"
            case _ if parameter.name in ("amount", "rate", "hour"):
                return "1USD"
            case _:
                return self.values.get(str(parameter.name), HOSTILE) if known else HOSTILE
