"""A clock in the middle of the running month, for tests that name months: none of them ends meanwhile."""

import time
from datetime import UTC, datetime

import pytest

from core.clock import now_ms


@pytest.fixture
def mid_month(monkeypatch: pytest.MonkeyPatch) -> None:
    """From noon of the 15th on (UTC)."""
    real = time.time_ns
    noon = datetime.now(UTC).replace(day=15, hour=12, minute=0, second=0, microsecond=0)
    ahead_ns = int(noon.timestamp()) * 1_000_000_000 - real()
    monkeypatch.setattr(time, "time_ns", lambda: real() + ahead_ns)


def month(ahead: int) -> str:
    """A month from the running one on (UTC)."""
    now = datetime.fromtimestamp(now_ms() / 1000, UTC)
    months = now.year * 12 + now.month - 1 + ahead
    return f"{months // 12}-{months % 12 + 1:02}"
