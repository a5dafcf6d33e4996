"""A real Valkey cluster for tests: two nodes on loopback ports, half of the slots each."""

import ssl
import subprocess
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from core.redis.client import RedisClient
from core.redis.redis_connections import connect_url
from core.runtime.embedded import valkey_binary
from tests.support.home import short_folder
from tests.support.patience import START_SECONDS, ended, watch_until
from tests.support.ports import free_ports
from tests.support.tls import tls_before

SLOTS = 16_384


@contextmanager
def running_cluster(folder: Path, tls: ssl.SSLContext | None = None) -> Generator[str]:
    """Its redis+cluster:// URL, for as long as the block runs. `tls`: its nodes are reached by that only."""
    ports = free_ports(6)
    nodes = list(zip(ports[:2], ports[2:4], strict=True))
    doors = list(zip(ports[4:], ports[:2], strict=True)) if tls else []
    processes = [
        _start(folder, port, bus, doors[at][0] if doors else port) for at, (port, bus) in enumerate(nodes)
    ]
    try:
        clients = [redis.Redis(port=port) for port, _ in nodes]
        _join(clients, nodes, processes)
        for client in clients:
            client.close()
        if tls is None:
            yield f"redis+cluster://127.0.0.1:{ports[0]}"
        else:
            with tls_before(doors, tls):
                yield f"rediss+cluster://127.0.0.1:{doors[0][0]}"
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            ended(process)


@pytest.fixture(scope="module")
def cluster_url() -> Generator[str]:
    """The URL of a cluster that all tests of a file share."""
    with short_folder("cluster") as folder, running_cluster(folder) as url:
        yield url


@pytest.fixture
async def cluster(cluster_url: str) -> AsyncGenerator[RedisClient]:
    """A client of it, with nothing in it."""
    client: Any = connect_url(cluster_url)
    await client.flushall(target_nodes="primaries")
    yield client
    await client.aclose()


def _start(folder: Path, port: int, bus: int, announced: int) -> "subprocess.Popen[bytes]":
    home = folder / str(port)
    home.mkdir()
    options = {
        "--bind": "127.0.0.1",
        "--port": str(port),
        "--cluster-enabled": "yes",
        "--cluster-port": str(bus),
        "--cluster-announce-port": str(announced),
        "--cluster-config-file": str(home / "nodes.conf"),
        "--cluster-node-timeout": "5000",
        "--dir": str(home),
        "--save": "",
        "--appendonly": "no",
    }
    arguments = [part for pair in options.items() for part in pair]
    with (home / "valkey.log").open("wb") as log:
        return subprocess.Popen([str(valkey_binary()), *arguments], stdout=log, stderr=log)


def _join(
    clients: "list[redis.Redis]", nodes: list[tuple[int, int]], processes: "list[subprocess.Popen[bytes]]"
) -> None:
    for client, process in zip(clients, processes, strict=True):
        _until(partial(_answers, client), process)
    half = SLOTS // len(clients)
    for at, client in enumerate(clients):
        client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", at + 1)
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", at * half, (at + 1) * half - 1)
    port, bus = nodes[1]
    clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", port, bus)
    for client, process in zip(clients, processes, strict=True):
        _until(partial(_is_whole, client), process)


def _answers(client: redis.Redis) -> bool:
    return bool(client.ping())


def _is_whole(client: redis.Redis) -> bool:
    info: Any = client.execute_command("CLUSTER", "INFO")
    return b"cluster_state:ok" in info and b"cluster_known_nodes:2" in info


def _until(check: Callable[[], bool], process: "subprocess.Popen[bytes]") -> None:
    def came() -> bool:
        assert process.poll() is None, "a Valkey node ended at its start"
        try:
            return check()
        except (redis.ConnectionError, redis.BusyLoadingError):
            return False

    watch_until(came, START_SECONDS)
