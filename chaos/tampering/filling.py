"""Fills a database, by the commands that people type and by events as workers write them, with two tenants
who have something of all that is administered and booked."""

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from click.testing import CliRunner, Result

from billing.api import Counts, PinnedPrices, UsageEvent, UsageOwner, rate, seal, sealed_admission_of
from billing.usage import encode
from core.clock import now_ms
from core.signing.signed_text import Keyring

ACME_REQUESTS, BETA_REQUESTS, AT_ONCE = 20, 8, 5
DAY_MS = 24 * 3_600_000
USER = "u_" + "0a" * 16
PRICES = PinnedPrices(
    book="silver", version=1, input_nano=200_000_000, cached_input_nano=50_000_000, output_nano=800_000_000
)
PRICE_FILE = """
book = "silver"
[models."*"]
input = "0.20"
cached_input = "0.05"
output = "0.80"
[models."*".tiers.output]
mode = "graduated"
steps = [{ up_to = 1000, price = "0.80" }, { price = "0.40" }]
minimum = "5.00"
"""
MODEL_NAME = "small"
POLICY_FILE = '{"detectors": [{"name": "card", "action": "block"}]}'
BEFORE = (
    "tenants create acme",
    "tenants create beta",
    "prices import {prices} --now",
    "tenants set acme --price-book silver",
    "tenants set beta --price-book silver",
    "tenants terms acme --weight 2",
    "keys create --tenant acme --name first",
    "keys create --tenant acme --name second",
    "users create --tenant acme alice",
    "limits set --tenant acme --scope tenant --dimension concurrency --limit 20",
    "budgets set --tenant acme --limit 500USD",
    "cost-centers create --tenant acme 4711",
    "projects create --tenant acme research",
    "projects charge-to --tenant acme research 4711",
    "prices commit --tenant acme --amount 100USD",
    "models add {model} --no-answer",
    "pools create reserved --model {model_name} --tenant acme --let-in beta --workers 1",
    "wallets grant --tenant beta --amount 50USD --key g1",
    "safety set {policy} --tenant acme --reason why --yes",
)
AFTER = (
    "usage correct acme-3 --tenant acme --cause c1 --output 9",
    "prices close-period --tenant acme --month {month} --force",
    "keys revoke --tenant acme {key}",
    "projects create --tenant acme later",
)

Type = Callable[[str], Result]
Post = Callable[[Sequence[bytes]], None]


def typing(environment: Mapping[str, str]) -> Type:
    """Types `parley …` in this process, under an environment."""
    from core.cli import parley  # its commands are those of all packages

    return lambda line: CliRunner().invoke(parley, line.split(), env=dict(environment))


def fill(home: Path, type_line: Type, post: Post, secret: str) -> dict[str, str]:
    """Make the two tenants, have events posted, and what comes after; their ids by name."""
    (home / "prices.toml").write_text(PRICE_FILE)
    (home / "policy.json").write_text(POLICY_FILE)
    facts = {
        "model": str(_model(home / MODEL_NAME)),
        "model_name": MODEL_NAME,
        "policy": str(home / "policy.json"),
        "prices": str(home / "prices.toml"),
        "month": f"{_last_month():%Y-%m}",
    }
    _type_all(type_line, BEFORE, facts)
    with closing(sqlite3.connect(home / "parley.db")) as database:
        facts |= dict(database.execute("SELECT name, tenant_id FROM tenant").fetchall())
        facts["key"] = database.execute("SELECT id FROM api_key WHERE name = 'second'").fetchone()[0]
    events = [_event("acme", facts["acme"], number, secret) for number in range(ACME_REQUESTS)]
    events += [_event("beta", facts["beta"], number, secret) for number in range(BETA_REQUESTS)]
    for first in range(0, len(events), AT_ONCE):
        post([encode(event) for event in events[first : first + AT_ONCE]])
    _type_all(type_line, AFTER, facts)
    return facts


def _model(folder: Path) -> Path:
    """A model folder that can be added, and that nothing runs."""
    folder.mkdir()
    (folder / "config.json").write_text('{"max_position_embeddings": 128, "eos_token_id": 0}')
    words = {"type": "WordLevel", "vocab": {"<unk>": 0, "a": 1}, "unk_token": "<unk>"}
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": words}))
    (folder / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def _type_all(type_line: Type, lines: Sequence[str], facts: Mapping[str, str]) -> None:
    for line in lines:
        result = type_line(line.format(**facts))
        if result.exit_code:
            raise RuntimeError(f"parley {line}: {result.output} {result.exception}")


def _last_month() -> datetime:
    now = datetime.now(UTC)
    return datetime(now.year - (now.month == 1), (now.month + 10) % 12 + 1, 1, tzinfo=UTC)


def _event(name: str, tenant: str, number: int, secret: str) -> UsageEvent:
    """Half of a tenant's requests are of last month; the others began after the prices did, however quick the
    machine is."""
    tenth_ms = 1 if number % 2 else 100
    ended = now_ms() if number % 2 else int(_last_month().timestamp() * 1000) + number * DAY_MS // 8
    counts = Counts(input_uncached=100 + number, input_cached=16, output_text=200 + number)
    owner = UsageOwner(
        project="p1", key=f"k{number % 2}", user=USER, conversation=f"c{number}", metadata=b'{"ticket":"7"}'
    )
    event = UsageEvent(
        tenant=tenant,
        request=f"{name}-{number}",
        pool="default",
        model=("small", "medium")[number % 2],
        fingerprint="f1",
        owner=owner,
        accepted_ms=ended - 9 * tenth_ms,
        claimed_ms=ended - 8 * tenth_ms,
        first_token_ms=ended - 7 * tenth_ms,
        ended_ms=ended,
        reason="stop",
        prices=PRICES,
        input_uncached=counts.input_uncached,
        input_cached=counts.input_cached,
        output_text=counts.output_text,
        cost_nano=rate(counts, PRICES)[1],
        claims=1,
        asked_input=counts.input_uncached + counts.input_cached,
        asked_output=counts.output_text,
    )
    return msgspec.structs.replace(event, seal=seal(sealed_admission_of(event), Keyring(secret.encode())))
