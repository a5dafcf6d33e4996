"""Where engines make their sockets, and that none of those stay."""

import asyncio
import os
import socket
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from core.configuration.settings import Settings
from core.errors import StartupError
from core.runtime.environment import child_environment
from engine.api import PoolQueue
from engine.models.registry import ModelRecord
from engine.node import supervised_worker
from engine.node.sockets import FOLDER, VARIABLE, engine_sockets
from engine.node.supervised_worker import SupervisedWorker
from engine.node.supervisor import Supervisor
from tests.engine.builders import FINGERPRINT
from tests.support.home import settings_in, short_folder
from tests.support.redis import Redis

OF_VLLM = "0" * 36  # it names them by a UUID


def made_in(folder: str) -> Path:
    """A socket as vLLM makes them; nobody removes it."""
    path = Path(folder) / OF_VLLM
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
    return path


def mode(path: Path) -> int:
    """Who may do what with it."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("own", [None, "/of/the/operator"])
async def test_a_workers_sockets_go_with_it(
    own: str | None, settings: Settings, redis: Redis, monkeypatch: pytest.MonkeyPatch
):
    """However it ended: its environment names a folder that only we read, which its place removes. One that
    the operator chose is left to him."""
    stop, named, left = asyncio.Event(), list[str](), list[Path]()
    monkeypatch.delenv(VARIABLE, raising=False)
    if own:
        monkeypatch.setenv(VARIABLE, own)

    async def ends_at_once(_: Sequence[str], environment: Mapping[str, str], __: Path) -> NoReturn:
        named.append(child_environment(environment)[VARIABLE])  # it starts itself again with what passes
        if not own:
            left.append(made_in(named[0]))
            assert [mode(each) for each in (left[0].parent, left[0].parents[1])] == [0o700, 0o700]
        stop.set()
        raise StartupError("x")

    async def model(_: str) -> ModelRecord:
        return ModelRecord("tiny", "1", FINGERPRINT, settings.home, 4096)

    monkeypatch.setattr(supervised_worker, "spawn", ends_at_once)
    queue = PoolQueue(redis, settings.pool, settings)
    await SupervisedWorker(settings, queue, 0, 1, lambda: None, model).keep(stop)
    assert named == [own] if own else settings.home in Path(named[0]).parents
    assert [path for path in left if path.parent.exists()] == []


async def test_what_a_killed_supervisor_left_goes_at_the_next_start(settings: Settings, redis: Redis):
    """Of all its places, also where fewer are started; another pool's engines keep theirs."""
    places = [engine_sockets(settings, index) for index in range(3)]
    other = engine_sockets(settings.model_copy(update={"pool": "other"}), 0)
    left = [made_in(place.__enter__()[VARIABLE]) for place in places]
    with other as sockets:
        theirs = made_in(sockets[VARIABLE])
        stop = asyncio.Event()
        stop.set()
        await Supervisor(settings, redis, 1).run(stop)
        assert theirs.exists()
        assert [path for path in left if path.parent.exists()] == []


@pytest.mark.parametrize("bytes_over", [0, 1])
def test_no_engine_is_sent_where_it_cannot_make_a_socket(bytes_over: int, monkeypatch: pytest.MonkeyPatch):
    """A path of more than 107 bytes is none: vLLM then takes its own place instead of not starting."""
    with short_folder("s") as home:
        settings = settings_in(home)
        with engine_sockets(settings, 0) as sockets:
            free = 107 - len(os.fsencode(f"{sockets[VARIABLE]}/{OF_VLLM}"))
        monkeypatch.setattr("engine.node.sockets.FOLDER", "x" * (len(FOLDER) + free + bytes_over))
        with engine_sockets(settings, 0) as sockets:
            if bytes_over:
                assert sockets == {}
            else:
                made_in(sockets[VARIABLE])
        assert [each for each in home.rglob("*") if each.parent != home] == []
