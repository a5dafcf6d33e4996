"""TLS to Redis, one server and cluster, and to Postgres: whose certificate is not good is not spoken to."""

import asyncio
import socket
import ssl
import subprocess
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ConnectionError as ConnectionLost
from sqlalchemy.exc import DBAPIError

from core.errors import StartupError
from core.redis.client import RedisClient, connect
from core.redis.script_calls import ScriptCall
from core.redis.scripts import Script
from core.runtime.embedded import valkey_binary
from core.sql.database import Database
from tests.support.cluster import running_cluster
from tests.support.home import settings_in, short_folder
from tests.support.patience import ended, soon, watch_until
from tests.support.ports import free_ports
from tests.support.tls import Authority, CertificatePair, tls_before

ECHO = "#!lua\nredis.call('SET', KEYS[1], args.said)\nreturn redis.call('GET', KEYS[1])"


@pytest.fixture(scope="module")
def folder() -> Generator[Path]:
    with short_folder("tls") as made:
        yield made


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder)


@pytest.fixture(scope="module")
def redis_port() -> Generator[int]:
    """A Valkey without TLS on a port."""
    [port] = free_ports(1)
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen([str(valkey_binary()), *options], stdout=subprocess.DEVNULL)
    watch_until(lambda: _listens(port))
    yield port
    process.terminate()
    ended(process)


def _listens(port: int) -> bool:
    with socket.socket() as door:
        return door.connect_ex(("127.0.0.1", port)) == 0


@asynccontextmanager
async def client_of(url: str, folder: Path, **settings: object) -> AsyncGenerator[RedisClient]:
    client: Any = connect(settings_in(folder, redis_url=url, **settings))
    try:
        yield client
    finally:
        await client.aclose()


class SayCall(ScriptCall, kw_only=True):
    said: str


async def speaks(url: str, folder: Path, **settings: object) -> bool:
    """Whether commands, scripts and subscriptions go over it."""
    (folder / "echo.lua").write_text(ECHO)
    async with client_of(url, folder, **settings) as client:
        any_client: Any = client
        assert await any_client.ping()
        echo = Script(folder / "echo.lua", SayCall, bytes)
        return await echo(client, ["key"], SayCall(said="said")) == b"said"


async def test_one_server_over_tls(folder: Path, authority: Authority, redis_port: int):
    """Its certificate is looked at, with its name; ours is shown where it asks."""
    [port, other, asking] = free_ports(3)
    good, elsewhere = authority.pair("redis"), authority.pair("elsewhere", for_loopback=False)
    us = authority.pair("worker")
    url, trusted = f"rediss://127.0.0.1:{port}", {"redis_ca_file": authority.certificate}
    with (
        tls_before([(port, redis_port)], authority.server(good)),
        tls_before([(other, redis_port)], authority.server(elsewhere)),
        tls_before([(asking, redis_port)], authority.server(good, asks=True)),
    ):
        assert await speaks(url, folder, **trusted)
        for wrong in (
            speaks(url, folder),
            speaks(url, folder, redis_ca_file=Authority(folder, "stranger").certificate),
            speaks(f"rediss://127.0.0.1:{other}", folder, **trusted),
            speaks(f"rediss://127.0.0.1:{asking}", folder, **trusted),
        ):
            with pytest.raises((ConnectionLost, OSError)):
                await wrong
        shown = {"redis_cert_file": us.certificate, "redis_key_file": us.key}
        assert await speaks(f"rediss://127.0.0.1:{asking}", folder, **trusted, **shown)


async def test_a_cluster_over_tls(folder: Path, authority: Authority):
    """Also the nodes that the first one names."""
    with (
        short_folder("cluster") as nodes,
        running_cluster(nodes, authority.server(authority.pair("node"))) as url,
    ):
        async with client_of(url, folder, redis_ca_file=authority.certificate) as client:
            any_client: Any = client
            for key in ("a", "b", "c", "d"):  # on both nodes
                assert await any_client.set(key, key)
                assert await any_client.get(key) == key.encode()


@pytest.mark.parametrize("name", ["redis_ca_file", "redis_cert_file", "redis_key_file"])
def test_a_certificate_without_tls_is_a_mistake(folder: Path, authority: Authority, name: str):
    """Whoever names one thinks that there is TLS; and a file that is missing is named."""
    variable = f"PARLEY_{name.upper()}"
    with pytest.raises(StartupError, match=f"{variable} is set, but PARLEY_REDIS_URL asks for no TLS"):
        connect(settings_in(folder, redis_url="redis://127.0.0.1", **{name: authority.certificate}))
    with pytest.raises(StartupError, match=f"cannot read {variable} /nonexistent: No such file"):
        connect(settings_in(folder, redis_url="rediss://127.0.0.1", **{name: "/nonexistent"}))


class Postgres:
    """As much of one as shows what arrives over TLS."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.arrived = b""
        self.serving: set[asyncio.Task[None] | None] = set()
        self._context = context

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.serving.add(asyncio.current_task())
        await reader.readexactly(8)  # SSLRequest
        writer.write(b"S")
        try:
            await writer.start_tls(self._context)
            self.arrived = await reader.read(1024)
        except OSError:
            pass
        writer.close()


async def arrives(pair: CertificatePair, authority: Authority, query: str) -> bytes:
    """What a Postgres with that certificate gets to read of us."""
    fake = Postgres(authority.server(pair))
    listener = socket.create_server(("127.0.0.1", 0))
    async with await asyncio.start_server(fake.serve, sock=listener):
        database = Database(
            f"postgresql+asyncpg://ann:pw@127.0.0.1:{listener.getsockname()[1]}/parley?{query}"
        )
        with pytest.raises((OSError, DBAPIError)):  # it never gets an answer
            await database.engine.connect()
        await database.close()
        await soon(asyncio.gather(*(each for each in fake.serving if each)))
    return fake.arrived


async def test_postgres_over_tls(folder: Path, authority: Authority):
    """By what psql's users write in a URL: nothing is said to who shows another's certificate."""
    good = authority.pair("postgres")
    ca = f"sslmode=verify-full&sslrootcert={authority.certificate}"
    assert b"ann" in await arrives(good, authority, ca)
    stranger = f"sslmode=verify-full&sslrootcert={Authority(folder, 'stranger').certificate}"
    assert await arrives(good, authority, stranger) == b""
    assert await arrives(authority.pair("other", for_loopback=False), authority, ca) == b""
