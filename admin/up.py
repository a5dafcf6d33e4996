"""`parley up`: the whole platform on this machine, started, watched and stopped together."""

import asyncio
import contextlib
import os
import shlex
import sys
from collections.abc import AsyncGenerator, Coroutine, Generator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click
import httpx
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from admin.child_processes import ChildProcess, rotate_logs
from admin.demo import USER, Demo, UpFile, demo_key
from admin.home_traces import require_its_database
from admin.own_pool import PoolReasons, WantedPool, ready_pool
from billing.api import make_link_code, owner_url
from core.access.processes import BILLER, CONSOLE, FLEET, GATEWAY, PORTAL
from core.actor import process_user
from core.clock import monotonic, now_ms
from core.configuration.settings import Settings
from core.errors import StartupError
from core.files import file_lock
from core.redis.client import RedisClient, connect
from core.runtime import service
from core.runtime.embedded import EmbeddedValkey, ensure_home, require_restored
from core.sql.database import Database, migrate
from core.sql.store_errors import database_failure, redis_failure
from core.tasks import cancel_tasks
from core.terminal.terminal import print_dated_line, print_json, print_lines
from core.web.http import listen
from core.web.local_urls import UP_FILE, UP_LOCK, url_at
from core.web.metrics import FLEET_PLACE, GATEWAY_PLACE

T = TypeVar("T")

READY_POLL_SECONDS = 0.2
SLOW_START_SECONDS = 120.0
DRAIN_SECONDS_MAX = 2.0
METRICS_ABOVE = 1000
PORT_MAX = 65535
LOCK_SECONDS_MAX = 0.1  # other processes hold it for a moment to see whether it is free


@click.command()
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    help="Workers of the pool at its first start (by default 1); later: parley pools resize.",
)
@click.option("--model", help="Model of the pool at its first start: smollm2 (default), a folder, a hub id.")
@click.option("--host", help="Address to listen on (PARLEY_HOST).")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the chat page and API (PARLEY_PORT).")
@click.option("--new-database", is_flag=True, help="Begin anew where this home's database is gone.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line when ready instead of text.")
def command(
    workers: int | None,
    model: str | None,
    host: str | None,
    port: int | None,
    new_database: bool,
    as_json: bool,
) -> None:
    """Start the whole platform on this machine and stay until Ctrl-C.

    All it needs lives in PARLEY_HOME (default ~/.parley). It is stopped together, however this ends.
    """
    given = {"PARLEY_HOST": host, "PARLEY_PORT": None if port is None else str(port)}
    os.environ.update({name: value for name, value in given.items() if value is not None})
    settings = Settings()
    # Children find the same folder wherever they run.
    os.environ["PARLEY_HOME"] = str(settings.home)
    service.run(
        settings,
        "up",
        lambda s, stop: PlatformStart(s, wanted_pool(s, workers, model), as_json, new_database).run(stop),
    )


class PlatformStart:
    """One start of the platform."""

    def __init__(
        self, settings: Settings, asked: WantedPool, as_json: bool, new_database: bool = False
    ) -> None:
        self._settings = settings
        self._asked = asked
        self._as_json = as_json
        self._new_database = new_database
        self._began = monotonic()

    async def run(self, stop: asyncio.Event) -> None:
        """Start everything, print the addresses, and stay until `stop`."""
        await asyncio.to_thread(ensure_home, self._settings)
        self._settings.require_edge()
        with self._locked():
            settings = self._settings
            require_restored(settings.home)
            if not self._new_database:
                await require_its_database(settings)
            listen(settings.host, settings.port, "PARLEY_PORT").close()
            console = settings.console_host, settings.console_endpoint_port
            listen(*console, "PARLEY_CONSOLE_PORT").close()
            portal = settings.portal_host, settings.portal_endpoint_port
            listen(*portal, "PARLEY_PORTAL_PORT").close()
            async with self._redis():
                await self._serve(stop)
        self._say("stopped")

    async def _serve(self, stop: asyncio.Event) -> None:
        prepared = await _unless(stop, self._prepare())
        if prepared is None:
            return
        name, demo = prepared
        children = self._children(name)
        running = [asyncio.create_task(child.run()) for child in children]
        running.append(asyncio.create_task(rotate_logs(self._settings.home / "logs")))
        running.append(asyncio.create_task(PoolReasons(self._settings, self._say).run()))
        running.append(asyncio.create_task(self._until_stopped(demo, stop)))
        try:
            ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()  # a child that cannot be started ends all
            self._say("stopping")
        finally:
            try:
                await asyncio.gather(*(child.stop() for child in children))
            finally:
                await cancel_tasks(running)

    async def _until_stopped(self, demo: Demo, stop: asyncio.Event) -> None:
        await self._announce(demo, stop)
        await stop.wait()

    async def _prepare(self) -> tuple[str, Demo]:
        """Prepare schema, model and demo tenant. Returns the model's name."""
        await migrate(self._settings.database_endpoint)
        db = Database(self._settings.database_endpoint)
        try:
            program = _program(self._settings)
            record = await ready_pool(db, self._settings, self._asked, self._say, program)
            return record.name, await demo_key(db, self._up_file)
        finally:
            await db.close()

    def _children(self, model: str) -> list[ChildProcess]:
        commands = {
            FLEET: ["fleet", "--one-user"],  # first: what it starts takes longest
            GATEWAY: ["gateway"],
            CONSOLE: ["console"],
            PORTAL: ["console", "--serve", "tenants"],
            BILLER: ["biller"],
        }
        # There is no other gateway to go to: clients come back when this one does.
        drain_seconds = min(DRAIN_SECONDS_MAX, self._settings.drain_seconds_max)
        env = {"PARLEY_MODEL": model, "PARLEY_DRAIN_SECONDS_MAX": str(drain_seconds)}
        if self._metrics_port is not None:
            env["PARLEY_METRICS_PORT"] = str(self._metrics_port)
        home = self._settings.home
        keys = ",".join(key.hex() for key in self._settings.admission_keys)
        of_its_own = {BILLER: {"PARLEY_ADMISSION_KEY": keys}}
        return [
            ChildProcess(process, arguments, home, env | of_its_own.get(process, {}), self._say)
            for process, arguments in commands.items()
        ]

    async def _announce(self, demo: Demo, stop: asyncio.Event) -> None:
        settings = self._settings
        url = url_at(settings.host, settings.port)
        console = url_at(settings.console_host, settings.console_endpoint_port)
        portal = url_at(settings.portal_host, settings.portal_endpoint_port)
        metrics = ""
        if self._metrics_port is not None:
            metrics = url_at(settings.metrics_host, self._metrics_port + GATEWAY_PLACE)
        up = UpFile(url, console, "demo", demo.secret, metrics, portal)
        up.write(self._up_file)
        if not await self._ready(url, metrics, stop):
            return
        who, keyring = demo.principal, self._settings.keyring
        chat = f"{url}/#c={make_link_code(keyring, who.tenant, who.key, demo.user, now_ms())}"
        operator = await _owner_link(self._settings) or f"{console}/"
        if self._as_json:
            print_json(asdict(up) | {"chat": chat, "operator": operator})
            return
        print_lines(
            f"\n  Parley is ready after {monotonic() - self._began:.0f} s.\n\n"
            f"  Chat      {chat}\n"
            f"  Console   {operator}\n"
            f"  Tenant    {up.tenant}\n"
            f"  API key   {up.key}\n"
            f"  Metrics   {up.metrics or 'off'}\n"
            f"{self._example() if demo.alone else ''}\n"
            "  The links sign one browser in, once; the key works until revoked (kept in "
            f"{self._up_file}).\n"
            f"  Another   {_program(self._settings)} keys sign-in-link --tenant {up.tenant} --user {USER} "
            f"--url {url} {'_'.join(up.key.split('_')[:2])}\n"
            f"  Terminal  {_program(self._settings)} chat\n"
            f"  Logs      {self._settings.home / 'logs'}\n"
            "  Stop      Ctrl-C\n"
        )

    def _example(self) -> str:
        command = f"{_program(self._settings)} demo seed"
        return f"  Example   {command}   fills the console with two months of examples\n"

    async def _ready(self, url: str, metrics: str, stop: asyncio.Event) -> bool:
        """Wait for /readyz, printing the missing part whenever it changes. False: stopped before."""
        said, warned = "", False
        async with httpx.AsyncClient(timeout=5.0, trust_env=False) as client:
            while not stop.is_set():
                missing = await _missing(client, url, metrics)
                if missing is None:
                    return True
                if missing != said:
                    self._say(f"waiting: {missing}")
                    said = missing
                if not warned and monotonic() - self._began > SLOW_START_SECONDS:
                    self._say(f"this takes long; {self._settings.home / 'logs'} may say why")
                    warned = True
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), READY_POLL_SECONDS)
        return False

    @contextlib.asynccontextmanager
    async def _redis(self) -> AsyncGenerator[RedisClient]:
        """A client of the embedded Valkey, which ends with the block, or of the one that is configured."""
        valkey = None if self._settings.redis_url else EmbeddedValkey(self._settings)
        keeping: asyncio.Task[None] | None = None
        try:
            if valkey is not None:
                await valkey.start()
                keeping = asyncio.create_task(valkey.keep(self._say))
            client = connect(self._settings)
            try:
                try:
                    await client.ping()
                except (RedisError, OSError) as error:
                    raise redis_failure(error, self._settings) from error
                yield client
            finally:
                await client.aclose()
        finally:
            try:
                if keeping is not None:
                    await cancel_tasks([keeping])
            finally:
                if valkey is not None:
                    await valkey.stop()

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        """A lock for one `parley up` a data folder."""
        lock = file_lock.acquire(self._settings.home / UP_LOCK, LOCK_SECONDS_MAX)
        if lock is None:
            raise StartupError(
                f"another `parley up` runs on {self._settings.home}: stop it, or choose another PARLEY_HOME"
            )
        try:
            yield
        finally:
            os.close(lock)

    @property
    def _metrics_port(self) -> int | None:
        """PARLEY_METRICS_PORT, else the gateway's port plus METRICS_ABOVE; None where that is too high."""
        if self._settings.metrics_port is not None:
            return self._settings.metrics_port
        port = self._settings.port + METRICS_ABOVE
        return port if port + FLEET_PLACE <= PORT_MAX else None

    @property
    def _up_file(self) -> Path:
        return self._settings.home / UP_FILE

    def _say(self, line: str) -> None:
        print_dated_line(f"{monotonic() - self._began:6.1f} s", line)


def wanted_pool(settings: Settings, workers: int | None, model: str | None) -> WantedPool:
    """What the options and PARLEY_MODEL say of the pool. Pure."""
    return WantedPool(model or settings.model, bool(model) or "model" in settings.model_fields_set, workers)


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """The work's result; None where `stop` came first, and the work was cancelled."""
    task, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for each in (task, stopping):
            each.cancel()
        await asyncio.gather(task, stopping, return_exceptions=True)


async def _owner_link(settings: Settings) -> str | None:
    """The link that signs this machine's user in as the owner; None: others own the installation."""
    db = Database(settings.database_endpoint)
    try:
        return await owner_url(db, settings, process_user())
    except (SQLAlchemyError, OSError) as error:
        raise StartupError(f"no link, since it cannot be recorded: {database_failure(error)}") from error
    finally:
        await db.close()


def _program(settings: Settings) -> str:
    """Shell words that call this `parley` again from the present folder, for the same installation."""
    home = (
        "" if settings.home == Path.home() / ".parley" else f"PARLEY_HOME={shlex.quote(str(settings.home))} "
    )
    return home + (shlex.quote(sys.argv[0]) if os.access(sys.argv[0], os.X_OK) else "parley")


async def _missing(client: httpx.AsyncClient, url: str, metrics: str) -> str | None:
    """The gateway's missing part; None: it is ready. Its public /readyz says only yes or no, the one beside
    its metrics gives the reason."""
    try:
        if (await client.get(f"{url}/readyz")).status_code == 200:
            return None
    except httpx.TransportError:
        return "the gateway is starting"
    try:
        lacks = (await client.get(f"{metrics}/readyz")).text.strip() if metrics else ""
    except httpx.HTTPError:
        lacks = ""
    return lacks or "the gateway is not ready (its log says why)"
