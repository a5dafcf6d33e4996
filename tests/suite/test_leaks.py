"""What a test leaves behind is named with it, and fails it."""

import re
from pathlib import Path

import pytest

from tests.suite.scratch import ran
from tests.support import living
from tests.support.patience import watch_until

LEAKING = """
import asyncio, os, socket, subprocess, sys, tempfile, threading
import pytest
import redis
from pathlib import Path
from tests.support import leaks

kept, came_in = [], []

@pytest.fixture(scope="session")
def redis_url(pytestconfig):
    pytestconfig.stash[leaks.LEAKS].watch_redis(os.environ["GIVEN_REDIS"])
    yield os.environ["GIVEN_REDIS"]
    pytestconfig.stash[leaks.LEAKS].watch_redis("")

@pytest.fixture(scope="module")
def server():
    process = subprocess.Popen(["sleep", "1001"])
    yield process
    process.kill()
    process.wait()

@pytest.fixture(scope="module")
def forgetful():
    kept.append(subprocess.Popen(["sleep", "1002"]))

def test_key(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        client.set("left:key", 1)

def test_after_the_key(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()

def test_uses(server): pass
def test_process(server): kept.append(subprocess.Popen(["sleep", "1003"]))
def test_orphan(): subprocess.run(["sh", "-c", "setsid sleep 1004 &"], check=True)
def test_port(): kept.append(socket.create_server(("127.0.0.1", 0)))
@pytest.fixture(scope="module")
def door():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening
    came_in.pop().close()

def test_comes_in(door):
    with socket.create_connection(door.getsockname()):
        came_in.append(door.accept()[0])

def test_open(): kept.append(open(os.devnull))

@pytest.mark.vllm
def test_engine(): kept.append(open(os.devnull))
@pytest.mark.vllm
def test_engine_key(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        client.set("left:engine", 1)

@pytest.mark.vllm
def test_engine_process(): kept.append(subprocess.Popen(["sleep", "1005"]))

def test_file(): Path(tempfile.gettempdir(), "left.txt").touch()
def test_memory():
    from tests.support.home import made_folder
    made_folder("left", in_memory=True)
def test_thread():
    threading.Thread(target=threading.Event().wait, name="left thread", daemon=True).start()

async def left_task(): await asyncio.Event().wait()
async def test_task(): kept.append(asyncio.create_task(left_task()))

def test_ends_what_it_begins(tmp_path):
    with tempfile.NamedTemporaryFile(), socket.create_server(("127.0.0.1", 0)):
        subprocess.run(["true"], check=True)
    (tmp_path / "kept").touch()

def test_stranger(): kept.append(subprocess.Popen(["sleep", "1007"], env={}))
def test_is_soon_over(): kept.append(subprocess.Popen(["sleep", "0.05"]))

class Ring: pass
def test_ring():
    ring = Ring()
    ring.itself, ring.held = ring, open(os.devnull)

@pytest.fixture(scope="module")
def host():
    script = "read begin; sleep 1008 & echo begun; read end; kill $!"
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.communicate(b"end\\n")

def test_has_it_begin_another(host):
    host.stdin.write(b"begin\\n")
    host.stdin.flush()
    assert host.stdout.readline() == b"begun\\n"

@pytest.fixture
def breaks():
    yield
    kept.append(open(os.devnull))
    raise ValueError("it breaks")

def test_breaks(breaks): pass
def test_after_what_broke(): pass
def test_fixture(forgetful): pass
"""
LEFT = {
    "test_key": "key left:key",
    "test_process": "sleep 1003",
    "test_orphan": "sleep 1004",
    "test_port": "listening port ('127.0.0.1',",
    "test_open": "open /dev/null",
    "test_file": "/left.txt",
    "test_memory": "/parley-left-",
    "test_thread": "thread left thread",
    "test_task": "left_task",
    "test_fixture": "sleep 1002",
    "test_engine_key": "key left:engine",
    "test_engine_process": "sleep 1005",
    "test_stranger": "sleep 1007",
}


def test_what_a_test_leaves_behind_is_named_and_fails_it(tmp_path: Path, redis_url: str):
    """Each of its kinds, and nothing of the tests beside it or of a fixture that lasts."""
    code, said = ran(tmp_path, LEAKING, GIVEN_REDIS=redis_url)
    assert code == pytest.ExitCode.TESTS_FAILED, said
    told = re.findall(r"^left behind: (.*)\nby test_it\.py::(\w+): end or remove it", said, re.MULTILINE)
    named = {test: what for what, test in told}
    assert named.keys() == LEFT.keys(), said
    assert {test for test, what in LEFT.items() if what not in named[test]} == set(), said
    assert "23 passed" in said
    assert "LEFT BEHIND by the run" not in said


LATE = """
import subprocess

kept = []

class Late:
    def pytest_unconfigure(self):
        kept.append(subprocess.Popen(["sleep", "1006"]))

def test_is_green(pytestconfig): pytestconfig.pluginmanager.register(Late())
"""


def test_what_lives_on_after_the_run_is_named_and_fails_it(tmp_path: Path):
    """Whoever left it: a worker that was killed, say. It is killed, too."""
    code, said = ran(tmp_path, LATE)
    assert "1 passed" in said
    assert code == pytest.ExitCode.TESTS_FAILED, said
    [line] = [line for line in said.splitlines() if line.startswith("LEFT BEHIND by the run: process ")]
    assert line.endswith(": sleep 1006")
    left = int(line.split()[-3].rstrip(":"))
    watch_until(lambda: living.state_of(left) in ("", "Z"))
