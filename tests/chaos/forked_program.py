"""A program that is forked."""

import os
import sys
from pathlib import Path

from chaos.installation.forked import start, streams

PROGRAM = [sys.executable, "-m", "tests.chaos.a_process"]


def environment(home: Path, **more: str) -> dict[str, str]:
    """Ours, with a data folder that marks the process."""
    return {**os.environ, "PARLEY_HOME": str(home), **more}


async def told(tmp_path: Path, *arguments: str, **more: str) -> tuple[int, str, str]:
    """Exit code, output and errors of the program."""
    out, error = tmp_path / f"out {arguments} {more}", tmp_path / f"error {arguments} {more}"
    with streams(out, error) as three:
        process = await start([*PROGRAM, *arguments], environment(tmp_path, **more), three).begun()
    return await process.wait(), out.read_text(), error.read_text()
