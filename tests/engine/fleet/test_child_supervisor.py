"""What a controller's supervisors are given, and what is said where something has to be there first."""

from pathlib import Path

import pytest

from core.configuration.settings import Settings
from engine.fleet.child_supervisor import child_settings, lacking_user
from engine.fleet.local_hands import node_labels, supervisor_now
from engine.gpus import DeviceHealth
from engine.node.reports import NodeReport, WorkerProcessState, WorkerReport
from tests.support.home import settings_in

URL = "redis://parley-fleet:pw@host:6379/0"


def test_where_redis_has_users_a_new_pool_waits(home: Path):
    """With the two commands, until the files of its users are there; then its processes come in as they."""
    settings = settings_in(home, redis_url=URL)
    lacks = lacking_user(settings, "eu-1")
    assert "`parley redis acl --url URL --pool eu-1`" in lacks
    assert "`ACL LOAD`" in lacks
    assert "pw" not in lacks
    (home / "access").mkdir()
    for process in ("supervisor", "worker"):
        assert lacking_user(settings, "eu-1")
        (home / "access" / f"parley-{process}-eu-1.url").touch()
    assert lacking_user(settings, "eu-1") == ""
    given = child_settings({"PARLEY_REDIS_URL": URL}, settings, "eu-1", 0)
    assert given == {
        "PARLEY_REDIS_URL_FILE": str(home / "access" / "parley-supervisor-eu-1.url"),
        "PARLEY_WORKER_REDIS_URL_FILE": str(home / "access" / "parley-worker-eu-1.url"),
    }


@pytest.mark.parametrize("url", [None, "redis://host", "redis://:pw@host", "redis://default:pw@host:1/0"])
def test_without_users_a_pool_needs_none(home: Path, url: str | None):
    """A password for all is no user; a supervisor has the controller's own URL, and no secret beyond it."""
    settings = settings_in(home, redis_url=url)
    assert lacking_user(settings, "eu-1") == ""
    base = {"PARLEY_REDIS_URL": "x", "PARLEY_SECRET": "y", "PARLEY_HOME": "z"}
    assert child_settings(base, settings, "p", 0) == {"PARLEY_REDIS_URL": "x", "PARLEY_HOME": "z"}


@pytest.mark.parametrize(
    ("first", "number", "port"), [(9000, 0, "9000"), (9000, 1, "9200"), (9000, 2, "9265"), (65_400, 1, None)]
)
def test_each_supervisor_has_ports_of_its_own(home: Path, first: int, number: int, port: str | None):
    """For its metrics and its workers'; none where there are no such ports."""
    settings: Settings = settings_in(home, metrics_port=first)
    given = child_settings({"PARLEY_METRICS_PORT": str(first)}, settings, "p", number)
    assert given.get("PARLEY_METRICS_PORT") == port


def test_what_a_report_says():
    """Workers that do not load are faults, by their index."""
    states = (WorkerProcessState.READY, WorkerProcessState.ALARM, WorkerProcessState.STARTING)
    slots = [WorkerReport(at, f"w{at}", at, state, why="no file") for at, state in enumerate(states)]
    now = supervisor_now(NodeReport("s", "n", 7, slots, list[DeviceHealth](), "", 3))
    assert (now.workers, now.indexes, now.ready, now.faults) == (3, 3, 1, ("worker 1: no file",))
    assert node_labels(" zone=a, disk=fast,odd ") == {"zone": "a", "disk": "fast", "odd": ""}


def test_a_reason_is_one_short_line():
    """Whatever a report says of a worker, a log and every database take it."""
    slot = WorkerReport(0, "w0", 1, WorkerProcessState.ALARM, why="no\0 fi\nle\ud800" + "x" * 10_000)
    (fault,) = supervisor_now(NodeReport("s", "n", 7, [slot], [], "", 1)).faults
    assert fault.isprintable()
    assert fault.startswith("worker 0: no  fi le x")
    assert len(fault) < 600
