"""Secrets in settings: never shown, by variable or by file, long enough."""

import re
from pathlib import Path
from typing import Any, get_origin

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from core.cli import parley
from core.configuration.settings import Settings
from core.errors import StartupError
from core.files.secret_files import secret_names
from tests.support.home import settings_in

LONG, OTHER = "a" * 31 + "b", "c" * 32
CANARY = "canary-Zq7x"
SECRETS = {
    "secret": CANARY * 4,
    "secret_old": CANARY * 5,
    "redis_url": f"redis://user:{CANARY}@redis.example:6379/0",
    "database_url": f"postgresql://user:{CANARY}@db.example/parley",
    "admission_key": CANARY,
    "worker_redis_url": f"redis://worker:{CANARY}@redis.example",
    "smtp_password": CANARY,
    "audit_heads_key": CANARY * 4,
    "audit_s3_secret": CANARY,
    "otlp_endpoint": f"https://user:{CANARY}@traces.example",
}


def test_every_secret_is_known_as_one():
    """A setting that holds a password, and is not listed here, is not hidden either."""
    assert set(secret_names(Settings)) == set(SECRETS)


def test_no_secret_is_shown(home: Path):
    """Neither by the settings, nor by what pydantic says of a wrong one, nor where Redis is named."""
    settings = settings_in(home, **SECRETS)
    assert settings.redis_endpoint == SECRETS["redis_url"]
    assert settings.redis_shown == "redis://redis.example:6379/0"
    _ = settings.keyring, settings.database_endpoint
    for shown in (repr(settings), str(settings), repr(settings.keyring), settings.model_dump_json()):
        assert CANARY not in shown
    with pytest.raises(ValidationError) as wrong:
        settings_in(home, **SECRETS, port=CANARY)
    assert CANARY not in str(wrong.value)


def test_variables_are_read_as_pydantic_reads_them(home: Path, monkeypatch: pytest.MonkeyPatch):
    """Ours are plain, so that looking for lists and models in each was work for nothing."""

    class Read(Settings):
        @classmethod
        def settings_customise_sources(  # pyright: ignore[reportIncompatibleMethodOverride]
            cls, settings_cls: Any, **sources: Any
        ) -> tuple[Any, ...]:
            return (sources["env_settings"],)

    for field in Settings.model_fields.values():
        assert get_origin(field.annotation) not in (list, dict, set, tuple), "a field must be one value"
    monkeypatch.setenv("PARLEY_HOME", str(home))
    for name, value in (("PARLEY_PORT", "8123"), ("parley_pool", "west"), ("PARLEY_LOG_LEVEL", "")):
        monkeypatch.setenv(name, value)
    ours, pydantics = Settings(), Read()
    assert (ours.port, ours.pool, ours.log_level) == (8123, "west", "")
    assert ours.model_dump() == pydantics.model_dump()
    monkeypatch.setenv("PARLEY_PORT", "many")
    for each in (Settings, Read):
        with pytest.raises(ValidationError) as refused:
            each()
        assert [error["loc"] for error in refused.value.errors()] == [("port",)]


@pytest.mark.parametrize("name", ["secret", "secret_old"])
def test_a_short_secret_is_refused_in_one_line(home: Path, name: str):
    """It could be guessed. The line says which and what to do."""
    settings = settings_in(home, **{name: "x" * 31})
    with pytest.raises(StartupError, match=rf"PARLEY_{name.upper()} has 31 bytes .*openssl rand -hex 32"):
        settings.require_edge()


def test_a_short_secret_on_disk_is_refused(home: Path):
    """As one that somebody wrote there by hand."""
    (home / "secret").write_text("short")
    with pytest.raises(StartupError, match="secret has 5 bytes"):
        settings_in(home, secret=None).require_edge()


def test_secrets_come_by_file(home: Path, monkeypatch: pytest.MonkeyPatch):
    """Each secret setting; what surrounds the text in its file is no part of it."""
    for name, secret in SECRETS.items():
        (home / name).write_text(f"{secret}\n")
        monkeypatch.setenv(f"PARLEY_{name.upper()}_FILE", str(home / name))
    settings = Settings()
    assert {name: getattr(settings, name).get_secret_value() for name in SECRETS} == SECRETS


def test_a_secret_comes_one_way(home: Path, monkeypatch: pytest.MonkeyPatch):
    """Two ways would leave open which one holds; a file that is missing is named."""
    monkeypatch.setenv("PARLEY_SECRET_FILE", str(home / "missing"))
    with pytest.raises(StartupError, match=f"PARLEY_SECRET_FILE {home}/missing: No such file"):
        Settings()
    monkeypatch.setenv("PARLEY_SECRET", LONG)
    with pytest.raises(StartupError, match="PARLEY_SECRET or PARLEY_SECRET_FILE, not both"):
        Settings()


def test_commands_name_redis_without_its_password(home: Path, sqlite_template: Path):
    """What does not answer is named in the error."""
    environment = {"PARLEY_HOME": str(home), "PARLEY_REDIS_URL": f"redis://:{CANARY}@127.0.0.1:1"}
    result = CliRunner().invoke(parley, ["workers", "list"], env=environment)
    assert isinstance(result.exception, StartupError)
    assert str(result.exception).startswith("Redis does not answer at redis://127.0.0.1:1:")
    environment["PARLEY_REDIS_URL"] = f"redis://:{CANARY}#@127.0.0.1:1"
    result = CliRunner().invoke(parley, ["workers", "list"], env=environment)
    assert CANARY not in str(result.exception)


def numbers() -> list[str]:
    """All settings that are one."""
    schema = Settings.model_json_schema()["properties"]
    kinds = {
        name: {each.get("type") for each in (facts, *facts.get("anyOf", ()))}
        for name, facts in schema.items()
    }
    return [name for name, kind in kinds.items() if kind & {"integer", "number"}]


# Where 0 has a meaning: a port of the system's choice, no limit, none, at once, or what is found out.
MAY_BE_ZERO = (
    r"port|\w+_port|\w+_per_(second|minute)|silent_\w+|bad_messages\w+|\w+_cents_max|fair_\w+|age_\w+|"
    r"reserve_\w+|tenant_reserves_max|stuck_\w+|paused_seconds|auth_notice_seconds|drain_seconds_max|"
    r"(park|no_worker|id_ahead)_seconds_max|deleted_keep_seconds|backups_kept_days|"
    r"delta_interval_ms|journal_mib_max|fleet_workers_max|close_months_after_hours|"
    r"worker_(flush_ms|threads|max_model_len|batched_tokens)"
)


def takes(home: Path, name: str, number: float) -> bool:
    """Whether a setting may be that."""
    try:
        settings_in(home, **{name: number})
    except ValidationError as error:
        return [each["loc"] for each in error.errors()] != [(name,)]  # refused, it is named
    return True


def test_numbers_have_bounds(home: Path):
    """A ticket of -5 seconds would be none, and what no clock holds fails at the first use."""
    assert len(numbers()) > 90
    for name in numbers():
        for wrong in (-1, 10**13, float("inf"), float("nan")):
            assert not takes(home, name, wrong), (name, wrong)
        assert takes(home, name, 1), name
        assert takes(home, name, 0) is bool(re.fullmatch(MAY_BE_ZERO, name)), name
