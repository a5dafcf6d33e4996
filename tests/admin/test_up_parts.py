"""What `parley up` tells its parts and its operator, without starting any."""

import asyncio
import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from admin import up as module
from admin.demo import Demo
from admin.up import PlatformStart, _missing, _unless, wanted_pool
from billing.api import Principal
from core.access.processes import BILLER, CONSOLE, FLEET, GATEWAY, PORTAL
from core.configuration.settings import Settings
from core.errors import StartupError
from core.runtime.embedded import RESTORE_MARK, EmbeddedValkey
from tests.server.virtual.loop import passed, passing, played
from tests.support.home import settings_in

WHO = Principal("t1", "p1", "k1", "", frozenset({"chat"}), "bulk", None, False, "k1")
DEMO = Demo(WHO, "pk_abc_secret", "u1")


def up_at(home: Path, as_json: bool = False, **facts: Any) -> PlatformStart:
    """One of the model smollm2."""
    settings = settings_in(home, **{"port": 8080, "console_port": 8090} | facts)
    return PlatformStart(settings, wanted_pool(settings, None, None), as_json)


def test_each_part_is_told_what_it_needs(home: Path):
    """The command, the model, how long to drain; of secrets the biller has what admissions are signed by."""
    one = up_at(home)
    parts = {child.name: child for child in one._children("tiny")}
    assert {name: child._argv[3:] for name, child in parts.items()} == {
        GATEWAY.name: ["gateway"],
        CONSOLE.name: ["console"],
        PORTAL.name: ["console", "--serve", "tenants"],
        BILLER.name: ["biller"],
        FLEET.name: ["fleet", "--one-user"],
    }
    keys = ",".join(key.hex() for key in one._settings.admission_keys)
    for name, child in parts.items():
        told = child.environment
        assert (told["PARLEY_MODEL"], told["PARLEY_DRAIN_SECONDS_MAX"]) == ("tiny", "2.0")
        assert told["PARLEY_METRICS_PORT"] == "9080"
        assert told.get("PARLEY_ADMISSION_KEY") == (keys if name == BILLER.name else None)
    assert keys


def test_draining_ends_sooner_where_it_is_set(home: Path):
    """There is no other gateway to go to: two seconds at most."""
    for seconds, told in ((0.5, "0.5"), (60.0, "2.0")):
        child, *_ = up_at(home, drain_seconds_max=seconds)._children("tiny")
        assert child.environment["PARLEY_DRAIN_SECONDS_MAX"] == told


@pytest.mark.parametrize(
    ("port", "chosen", "metrics"),
    [(8080, None, 9080), (8080, 7000, 7000), (64431, None, 65431), (64432, None, None), (65535, None, None)],
)
def test_metrics_are_a_thousand_above(home: Path, port: int, chosen: int | None, metrics: int | None):
    """Where the last of their ports is one (104 above, the fleet's), and no other was chosen."""
    one = up_at(home, port=port, metrics_port=chosen)
    assert one._metrics_port == metrics
    told = {child.environment.get("PARLEY_METRICS_PORT") for child in one._children("tiny")}
    assert told == {None if metrics is None else str(metrics)}


class Announced:
    """What an `up` says once it is ready, and the file that it leaves."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch, ready: bool = True) -> None:
        self.home = home
        self.asked = list[tuple[str, str]]()

        async def waited(_: PlatformStart, url: str, metrics: str, _stop: asyncio.Event) -> bool:
            self.asked.append((url, metrics))
            return ready

        async def code(_: Settings) -> str:
            return "http://127.0.0.1:8090/#p=owner-code"

        monkeypatch.setattr(PlatformStart, "_ready", waited)
        monkeypatch.setattr(module, "_owner_link", code)
        monkeypatch.setattr(module, "make_link_code", lambda *facts: "-".join(map(str, facts[1:4])))
        monkeypatch.setattr("sys.argv", ["/no/such/parley"])

    def by(self, up: PlatformStart) -> dict[str, str]:
        """Have it announced."""

        async def day() -> None:
            await passing(7)
            await up._announce(DEMO, asyncio.Event())

        up._began = 1000.0
        played(day())
        return json.loads((self.home / "up.json").read_text())


def test_the_operator_is_told_where_everything_is(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Links that sign in, the key, how long it took; the same key in the file, which nobody else reads."""
    announced = Announced(home, monkeypatch)
    kept = announced.by(up_at(home, host="0.0.0.0"))
    assert kept == {
        "url": "http://127.0.0.1:8080",
        "console": "http://127.0.0.1:8090",
        "tenant": "demo",
        "key": "pk_abc_secret",
        "metrics": "http://127.0.0.1:9181",
        "portal": "http://127.0.0.1:8082",
    }
    assert stat.S_IMODE((home / "up.json").stat().st_mode) == 0o600
    assert announced.asked == [("http://127.0.0.1:8080", "http://127.0.0.1:9181")]
    said = capsys.readouterr()
    assert said.err == ""
    program = f"PARLEY_HOME={home} parley"
    assert [line.strip() for line in said.out.splitlines() if line.strip()] == [
        "Parley is ready after 7 s.",
        "Chat      http://127.0.0.1:8080/#c=t1-k1-u1",
        "Console   http://127.0.0.1:8090/#p=owner-code",
        "Tenant    demo",
        "API key   pk_abc_secret",
        "Metrics   http://127.0.0.1:9181",
        f"The links sign one browser in, once; the key works until revoked (kept in {home}/up.json).",
        f"Another   {program} keys sign-in-link --tenant demo --user demo --url http://127.0.0.1:8080 pk_abc",
        f"Terminal  {program} chat",
        f"Logs      {home}/logs",
        "Stop      Ctrl-C",
    ]


def test_the_example_is_shown_while_nobody_else_is_there(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """As a command that can be typed; whoever has tenants of their own is not asked to fill them up."""
    monkeypatch.setattr(f"{__name__}.DEMO", replace(DEMO, alone=True))
    Announced(home, monkeypatch).by(up_at(home))
    shown = (
        f"  Example   PARLEY_HOME={home} parley demo seed   fills the console with two months of examples\n"
    )
    assert shown in capsys.readouterr().out


def test_a_script_is_told_in_json(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """One line: the file's facts and both links; metrics that have no port are none."""
    kept = Announced(home, monkeypatch).by(up_at(home, as_json=True, port=65000))
    assert kept["metrics"] == ""
    (line,) = capsys.readouterr().out.splitlines()
    links = {
        "chat": "http://127.0.0.1:65000/#c=t1-k1-u1",
        "operator": "http://127.0.0.1:8090/#p=owner-code",
    }
    assert json.loads(line) == kept | links


def test_without_metrics_the_text_says_so(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """They are off."""
    Announced(home, monkeypatch).by(up_at(home, port=65000))
    assert "Metrics   off\n" in capsys.readouterr().out


def test_who_is_stopped_before_it_is_ready_says_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """No link that would lead nowhere."""
    Announced(home, monkeypatch, ready=False).by(up_at(home))
    assert capsys.readouterr().out == ""


def test_what_is_missing_is_said_when_it_changes(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Looked at five times a second; after two minutes once, where to look; stopped, it is not ready."""
    lacks: list[str | None] = ["the model"] * 602 + ["a worker"] * 3 + [None]
    asked = 0

    async def missing(*_: Any) -> str | None:
        nonlocal asked
        asked += 1
        return lacks[min(asked, len(lacks)) - 1]

    async def day(stops_after_seconds: float) -> tuple[bool, float]:
        one, stop = up_at(home), asyncio.Event()
        asyncio.get_running_loop().call_later(stops_after_seconds, stop.set)
        return await one._ready("http://g", "", stop), round(passed(), 1)

    monkeypatch.setattr(module, "_missing", missing)
    assert played(day(1e6)) == (True, 121.0)
    said = [line.split(" s  ") for line in capsys.readouterr().err.splitlines()]
    assert said == [
        ["   0.0", "waiting: the model"],
        [said[1][0], f"this takes long; {home}/logs may say why"],
        [" 120.4", "waiting: a worker"],
    ]
    assert float(said[1][0]) in (120.0, 120.2)
    asked = 0
    assert played(day(0.9)) == (False, 0.9)


@pytest.mark.parametrize(
    ("ready", "metrics", "told"),
    [
        (200, "http://m", None),
        (503, "http://m", "no worker"),
        (503, "", "the gateway is not ready (its log says why)"),
        (503, "http://away", "the gateway is not ready (its log says why)"),
        (503, "http://empty", "the gateway is not ready (its log says why)"),
        (0, "http://m", "the gateway is starting"),
    ],
)
async def test_what_is_missing_is_asked_where_metrics_are(ready: int, metrics: str, told: str | None):
    """The gateway's own answer to strangers is yes or no."""

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/readyz"
        match request.url.host:
            case "g" if ready:
                return httpx.Response(ready, text="no")
            case "m":
                return httpx.Response(503, text=" no worker\n")
            case "empty":
                return httpx.Response(200)
            case _:
                raise httpx.ConnectError("nobody listens")

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        assert await _missing(client, "http://g", metrics) == told


def test_work_is_given_up_where_it_is_stopped_first(home: Path):
    """What both ended at once counts as done; what was given up was cancelled; an error is its own."""

    async def work(seconds: float) -> str:
        await passing(seconds)
        if seconds == 1:
            raise StartupError("no")
        return "done"

    async def day(seconds: float, stops_after_seconds: float) -> tuple[str | None, float, int]:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(stops_after_seconds, stop.set)
        result = await _unless(stop, work(seconds))
        return result, passed(), len(asyncio.all_tasks())

    assert played(day(5, 9)) == ("done", 5, 1)
    assert played(day(9, 5)) == (None, 5, 1)
    with pytest.raises(StartupError):
        played(day(1, 5))


class Parts:
    """Instead of children: what was begun and ended; one that is named ends by itself, with an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log = list[str]()
        parts = self

        class Fake:
            def __init__(self, process: Any, *_: Any) -> None:
                self.name = process.name

            async def run(self) -> None:
                parts.log.append(f"+{self.name}")
                await asyncio.Event().wait()

            async def stop(self) -> None:
                parts.log.append(f"-{self.name}")

        async def rotating(folder: Path) -> None:
            parts.log.append(f"+{folder.name}")
            await asyncio.Event().wait()

        async def announced(_: PlatformStart, demo: Demo, _stop: asyncio.Event) -> None:
            parts.log.append(f"!{demo.user}")

        class Reasons:
            def __init__(self, *_: Any) -> None: ...

            async def run(self) -> None:
                parts.log.append("+reasons")
                await asyncio.Event().wait()

        monkeypatch.setattr(module, "ChildProcess", Fake)
        monkeypatch.setattr(module, "PoolReasons", Reasons)
        monkeypatch.setattr(module, "rotate_logs", rotating)
        monkeypatch.setattr(PlatformStart, "_announce", announced)


@pytest.mark.parametrize("prepares_seconds", [0.0, 5.0])
def test_all_run_until_it_is_stopped(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], prepares_seconds: float
):
    """Then all are stopped; nothing begins where it was stopped while it was prepared."""
    parts = Parts(monkeypatch)

    async def prepared(_: PlatformStart) -> tuple[str, Demo]:
        await passing(prepares_seconds)
        return "tiny", DEMO

    async def day() -> float:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(3, stop.set)
        await up_at(home)._serve(stop)
        assert len(asyncio.all_tasks()) == 1
        return passed()

    monkeypatch.setattr(PlatformStart, "_prepare", prepared)
    assert played(day()) == 3
    names = sorted(("gateway", "console-operators", "console-tenants", "biller", "fleet"))
    if prepares_seconds:
        assert parts.log == []
        return
    assert sorted(parts.log) == sorted(
        [*(f"+{name}" for name in names), *(f"-{name}" for name in names), "+logs", "+reasons", "!u1"]
    )
    assert "stopping" in capsys.readouterr().err


class Valkey:
    """Instead of an embedded one: what was done to it."""

    log: list[str]

    def __init__(self, _: Settings) -> None:
        self.log = Valkey.log = list[str]()

    async def start(self) -> None:
        """See EmbeddedValkey."""
        self.log.append("start")

    async def keep(self, _: Any) -> None:
        """See EmbeddedValkey."""
        self.log.append("keep")
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """See EmbeddedValkey."""
        self.log.append("stop")


class StubClient:
    """Instead of one of Redis."""

    def __init__(self, error: OSError | None) -> None:
        self._error, self.log = error, list[str]()

    async def ping(self) -> None:
        """Who listens answers."""
        self.log.append("ping")
        if self._error is not None:
            raise self._error

    async def aclose(self) -> None:
        """See Redis."""
        self.log.append("close")


@pytest.mark.parametrize(("url", "kept"), [(None, ["start", "keep", "stop"]), ("redis://10.0.0.1:6379", [])])
async def test_valkey_is_its_own_where_none_is_configured(
    home: Path, monkeypatch: pytest.MonkeyPatch, url: str | None, kept: list[str]
):
    """It is kept running and ends with it; another's is left alone. One that does not answer is told."""
    monkeypatch.setattr(module, EmbeddedValkey.__name__, Valkey)
    Valkey.log = []
    for error in (None, OSError("nobody")):
        client = StubClient(error)
        monkeypatch.setattr(module, "connect", lambda _, found=client: found)
        if error is None:
            async with up_at(home, redis_url=url)._redis() as found:
                assert found is client
                await asyncio.sleep(0)
        else:
            with pytest.raises(StartupError, match="does not answer"):
                async with up_at(home, redis_url=url)._redis():
                    pytest.fail("nobody answers")
        assert client.log == ["ping", "close"]
        assert [each for each in Valkey.log if error is None or each != "keep"] == (
            kept if error is None else kept[::2]
        )


async def test_a_home_whose_restore_did_not_end_is_refused(home: Path):
    """Its counts in Redis may be those of other books."""
    (home / RESTORE_MARK).write_text("{}")
    with pytest.raises(StartupError, match="a restore did not end here"):
        await up_at(home).run(asyncio.Event())
