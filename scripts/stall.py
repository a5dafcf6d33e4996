"""Runs a command while it and all that it started stop for a moment again and again, as on a paused machine.

    .venv/bin/python scripts/stall.py [--seconds 1.5] [--seed N] COMMAND...

What fails only here depends on real time. Pauses begin once the command has imported what it needs, and are
the same for the same seed, as far as the machine lets them. The exit code is the command's.
"""

import argparse
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

import psutil

LEAD_SECONDS = 4.0
GAP_SECONDS = (1.0, 2.5)
PAUSE_SECONDS = 1.5
POLL_SECONDS = 0.05


def pauses(seed: int, seconds: float) -> Iterator[tuple[float, float]]:
    """(how long it runs, how long it then stands), for ever. Pure."""
    drawn = random.Random(seed)
    while True:
        yield drawn.uniform(*GAP_SECONDS), seconds


def main(arguments: Sequence[str]) -> int:
    """The command's exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=PAUSE_SECONDS, help="of each pause")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 16))
    parser.add_argument("--lead", type=float, default=LEAD_SECONDS, help="seconds before the first")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    if not given.command:
        parser.error("which command?")
    process = subprocess.Popen(given.command)
    count = 0
    try:
        _runs(process, given.lead)
        for gap, stood in pauses(given.seed, given.seconds):
            if not _runs(process, gap):
                break
            _pause(process.pid, stood)
            count += 1
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
    code = process.wait()
    print(f"stall: {count} pauses of {given.seconds} s, seed {given.seed}", file=sys.stderr)
    return code


def _runs(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    """Whether it still runs after so long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if process.poll() is not None:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _pause(pid: int, seconds: float) -> None:
    """Stop the tree from its root down, and let it go on from its leaves up: no child's end is missed."""
    stopped: list[psutil.Process] = []
    try:
        root = psutil.Process(pid)
        for each in [root, *root.children(recursive=True)]:
            try:
                if each.status() == psutil.STATUS_STOPPED:
                    continue  # by the test itself, which lets it go on when it means to
                each.suspend()
                stopped.append(each)
            except psutil.Error:
                continue
        time.sleep(seconds)
    except psutil.NoSuchProcess:
        return
    finally:
        for each in reversed(stopped):
            try:
                each.resume()
            except psutil.Error:
                continue


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
