"""The whole platform as a newcomer starts it: `parley up` with a real vLLM worker."""

import json
import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from chaos.installation.forked import Forked, forks, start
from tests.support.patience import ENGINE_SECONDS, watch_until
from tests.support.ports import free_ports
from tests.support.processes import parley

ENGINE_BEATS = 12.0  # a gateway that is asked a hundred times a second, and who asks, take the engine's cores


@dataclass(frozen=True)
class Platform:
    """A running platform and what `up.json` says of it."""

    home: Path
    process: "subprocess.Popen[bytes] | Forked"
    url: str
    console: str
    tenant: str
    key: str

    def processes(self) -> list[psutil.Process]:
        """Every process that carries this PARLEY_HOME in its environment, `parley up` included."""
        return processes_of(self.home)

    def matching(self, *words: str) -> list[psutil.Process]:
        """Those whose command line has all the words."""
        return [each for each in self.processes() if all(word in command_line(each) for word in words)]


def command_line(process: psutil.Process) -> str:
    """A process's command line, empty where it is gone."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def processes_of(home: Path) -> list[psutil.Process]:
    """Every live process with PARLEY_HOME=home in its environment."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            carries = process.environ().get("PARLEY_HOME") == str(home)
            if carries and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


@contextmanager
def running_platform(
    home: Path, *arguments: str, environment: dict[str, str] | None = None, fresh: bool = True
) -> Generator[Platform]:
    """`parley up` on `home`, ready to answer; stopped by SIGTERM at the end. `fresh`: each process is an
    interpreter of its own, as a newcomer starts it; else a fork."""
    port, console = free_ports(2)
    base = {"PARLEY_HOME": str(home), "PARLEY_PORT": str(port), "PARLEY_CONSOLE_PORT": str(console)}
    with (home / "up.log").open("wb") as log:
        argv, given = parley("up", *arguments), {**os.environ, **base, **(environment or {})}
        if fresh or not forks(argv, given):
            process = subprocess.Popen(argv, env=given, stdout=log, stderr=subprocess.STDOUT)
        else:
            process = start(argv, given, (0, log.fileno(), log.fileno())).begun_here()
    try:
        _until_ready(f"http://127.0.0.1:{port}/readyz", process, Path(log.name))
        up = json.loads((home / "up.json").read_text())
        yield Platform(home, process, up["url"], up["console"], up["tenant"], up["key"])
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        watch_until(lambda: process.poll() is not None)


def _until_ready(url: str, process: "subprocess.Popen[bytes] | Forked", log: Path) -> None:
    def last_words() -> str:
        return log.read_text(errors="replace")[-4000:]

    with httpx.Client() as client:

        def ready() -> bool:
            assert process.poll() is None, f"parley up ended: {last_words()}"
            return _answers(client, url)

        watch_until(ready, ENGINE_SECONDS, last_words, beats=ENGINE_BEATS)


def _answers(client: httpx.Client, url: str) -> bool:
    try:
        return client.get(url).status_code == 200
    except httpx.TransportError:
        return False
