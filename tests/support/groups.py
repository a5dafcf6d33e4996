"""Which tests stay together on one worker, and which start first.

A file's tests stay together, for they share what their module's fixtures made. Files that share something
dear are one group. xdist's own `--dist loadgroup` would write a group behind each test's name.
"""

import os
from typing import Any

import pytest

ENGINE = "engine"
BROWSER = "browser"
ROLES = "roles"
# All that make a server's roles, which its databases share.
ROLES_FILES = {"tests/security/test_console_rights.py", "tests/security/test_database_roles.py"}
# All that start vLLM: at most one of its platforms lives at a time.
ENGINE_FILES = {
    "tests/browser/test_chat_page.py",
    "tests/engine/backends/test_vllm.py",
    "tests/system/test_answers.py",
    "tests/system/test_no_orphans.py",
}
ENGINE_TESTS = {"tests/chaos/test_run.py::test_a_kill_of_a_real_vllm_worker_loses_nothing"}
# The groups that last longest, in that order: they start first, so that none is waited for at the end.
LONGEST = (
    ENGINE,
    BROWSER,
    "tests/conformance/clients/test_client_cases.py",
    "tests/engine/node/test_supervisor.py",
    "tests/chaos/test_run.py",
    "tests/system/test_floods.py",
    "tests/billing/posting/test_biller.py",
    "tests/system/test_drain.py",
    "tests/conformance/test_gateway_cases.py",
    "tests/system/test_redis_tail.py",
    "tests/system/test_strangers.py",
    "tests/engine/worker/test_worker.py",
    "tests/chaos/test_failpoints.py",
    "tests/system/test_gateway_death.py",
    "tests/engine/trials/test_trial.py",
    "tests/server/requests/test_pool_moves.py",
    "tests/engine/worker/test_orphans.py",
    "tests/security/test_masks.py",
)
WORKERS_MAX = 6  # each has a Valkey, perhaps a Chromium, and an event loop that wants its turn


def group_of(nodeid: str) -> str:
    """The group of a test. Groups run side by side, the tests of one in turn on one worker."""
    file = nodeid.split("::", 1)[0]
    if file in ENGINE_FILES or nodeid in ENGINE_TESTS:
        return ENGINE
    if file in ROLES_FILES:
        return ROLES
    return BROWSER if file.startswith("tests/browser/") else file


def turn_of(group: str) -> int:
    """When it starts: those of LONGEST in their order, then the others."""
    return LONGEST.index(group) if group in LONGEST else len(LONGEST)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the shared platform come after all others: whatever starts an engine of its own is through by
    then. What is marked `last` ends what others share: the platform, after all who use it, else what its
    module made, after the module's others. Beyond that the order stays."""
    items.sort(key=_turn)
    for item in [item for item in items if _is_last(item) and not _is_of_platform(item)]:
        place = items.index(item)
        items.pop(place)
        others = (at for at, other in enumerate(items) if other.path == item.path)
        items.insert(max(others, default=place - 1) + 1, item)


def _turn(item: pytest.Item) -> int:
    return (1 + _is_last(item)) if _is_of_platform(item) else 0


def _is_last(item: pytest.Item) -> bool:
    return item.get_closest_marker("last") is not None


def _is_of_platform(item: pytest.Item) -> bool:
    return "platform" in getattr(item, "fixturenames", ())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """`-n auto`: one more than cores, for tests wait as much as they work."""
    return min(len(os.sched_getaffinity(0)) + 1, WORKERS_MAX)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Groups as units of work."""
    from tests.support.scheduler import GroupScheduling

    return GroupScheduling(config, log)
