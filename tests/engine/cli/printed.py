"""What commands print."""

import pytest

AT_MS = 1_800_000_000_123


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines, without what stands at their ends."""
    return [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip(" ─━╺")]
