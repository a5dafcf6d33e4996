"""What an installation has that sets nothing, and how far its settings go."""

import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticUndefined

from core.configuration import bounds
from core.configuration.settings import Settings
from tests.support.home import settings_in

YEARS_S = 316_224_000  # ten
DEFAULTS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("settings_defaults.yaml").read_text())


def test_what_nobody_sets_is_as_it_was(home: Path) -> None:
    """Each by its name; what is not among them is set by nobody, or is the home."""
    found = {name: field.default for name, field in Settings.model_fields.items()}
    assert {name: each for name, each in found.items() if each not in (None, PydanticUndefined)} == DEFAULTS
    settings = Settings.model_validate({"home": home})
    assert {name: getattr(settings, name) for name in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize(
    ("kind", "least", "most", "step"),
    [
        (bounds.Port, 0, 65_535, 1),
        (bounds.Some, 1, 10**12, 1),
        (bounds.SomeOrNone, 0, 10**12, 1),
        (bounds.Milliseconds, 1, YEARS_S * 1_000, 1),
        (bounds.MillisecondsOrNone, 0, YEARS_S * 1_000, 1),
        (bounds.Seconds, 1, YEARS_S, 1),
        (bounds.SecondsOrNone, 0, YEARS_S, 1),
        (bounds.Pause, 1e-9, YEARS_S, 1e-9),
        (bounds.PauseOrNone, 0, YEARS_S, 1e-9),
        (bounds.Rate, 0, 10**12, 1e-9),
        (bounds.Weight, 0, 10**12, 1e-9),
        (bounds.Fraction, 1e-9, 1, 1e-9),
    ],
)
def test_a_number_has_a_least_and_a_most(kind: Any, least: float, most: float, step: float) -> None:
    """And is none beyond."""
    numbers = TypeAdapter[float](kind)
    assert (numbers.validate_python(least), numbers.validate_python(most)) == (least, most)
    for beyond in (least - step, most + 1):
        with pytest.raises(ValidationError):
            numbers.validate_python(beyond)


def test_a_secret_of_ones_own_is_made_once_and_nobody_else_reads_it(tmp_path: Path) -> None:
    """256 bits, where no other user looks; no draft of it stays."""
    home = tmp_path / "a" / "home"
    key = settings_in(home, secret=None).keyring.current
    assert settings_in(home, secret=None).keyring.current == key
    secret = home / "secret"
    assert [each.name for each in home.iterdir()] == ["secret"]
    assert len(bytes.fromhex(secret.read_text())) == 32
    assert [stat.S_IMODE(each.stat().st_mode) for each in (home, secret)] == [0o700, 0o600]


def test_a_console_has_the_port_behind_the_gateways(home: Path) -> None:
    """Tenants' the next one. Where it has none of its own; 0 is one: any that is free."""
    assert settings_in(home, port=8_000).console_endpoint_port == 8_001
    assert settings_in(home, port=8_000, console_port=0).console_endpoint_port == 0
    assert settings_in(home, port=8_000).portal_endpoint_port == 8_002
    assert settings_in(home, port=8_000, portal_port=0).portal_endpoint_port == 0


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        (None, "sqlite+aiosqlite:///{home}/parley.db"),
        ("postgres://u:p@h/d", "postgresql+asyncpg://u:p@h/d"),
        ("postgresql://u:p@h/d", "postgresql+asyncpg://u:p@h/d"),
        ("sqlite+aiosqlite:////x.db", "sqlite+aiosqlite:////x.db"),
    ],
)
def test_a_database_is_named_as_people_do(home: Path, url: str | None, endpoint: str) -> None:
    """Or is a file of the home, as Redis is a socket in it."""
    settings = settings_in(home, database_url=url)
    assert settings.database_endpoint == endpoint.format(home=home)
    assert settings.redis_endpoint == f"unix://{home}/redis/redis.sock"
    assert settings.redis_shown == settings.redis_endpoint
