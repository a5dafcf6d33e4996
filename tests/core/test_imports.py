"""What a command imports before it can say anything: people wait for it."""

import sys

from tests.support.patience import finished

LOADED = """
import sys
import core.cli, core.telemetry, server.chat_cli
slow = ("alembic", "opentelemetry.exporter", "opentelemetry.sdk", "redis", "requests", "sqlalchemy", "stripe")
print(*(name for name in slow if name in sys.modules))
"""


def test_a_chat_loads_neither_stores_nor_exporters() -> None:
    """`parley chat` and `--help` need no SQL, no Redis; nobody but a serving process exports anything."""
    done = finished([sys.executable, "-c", LOADED])
    assert (done.returncode, done.stdout) == (0, "\n"), done.stdout + done.stderr


def test_all_commands_are_found_by_one_look() -> None:
    """Each look reads a file of every package that is installed."""
    from core.cli import registered

    assert registered() is registered()
    assert {"chat", "gateway", "up"} <= {entry.name for entry in registered()}
