"""The pytest plugin of `measure`: whatever runs between a test's start and its end is that test's."""

import json
import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import coverage
import pytest

NODE = "PARLEY_TEST_NODE"
SCRIPTS = "PARLEY_TEST_SCRIPTS"  # the folder for what Lua ran, a file a process
SETTINGS = str(Path(__file__).parent / "coverage.ini")

_measured = coverage.Coverage(config_file=SETTINGS, data_suffix=True)
_measured.start()  # as this is imported: before the conftests, and so before the product's first import
os.environ["COVERAGE_PROCESS_START"] = SETTINGS  # of the processes that this one starts
_ran: dict[str, set[str]] = defaultdict(set)
_files: dict[str, list[str]] = {}


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """What is measured is written down while tests run: files that no test left."""
    session.config.pluginmanager.unregister(name="leaks of this process")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Name the test in what is measured here and in the processes that it starts."""
    os.environ[NODE] = item.nodeid
    _measured.switch_context(item.nodeid)
    return (yield)


def pytest_sessionfinish() -> None:
    """Write down what was seen."""
    _measured.stop()
    _measured.save()
    folder = Path(os.environ[SCRIPTS])
    (folder / f"{os.getpid()}.json").write_text(json.dumps({file: sorted(ran) for file, ran in _ran.items()}))


def _watch_scripts() -> None:
    from core.redis.scripts import Script

    begun, called, many = Script.__init__, Script.run, Script.many

    def init(self: Script[Any, Any], *given: Any) -> None:
        begun(self, *given)
        _files[self.sha] = [str(file) for file in self.files]

    def ran(self: Script[Any, Any]) -> None:
        for file in _files.get(self.sha, ()):
            _ran[file].add(os.environ.get(NODE, ""))

    async def call(self: Script[Any, Any], *given: Any) -> Any:
        ran(self)
        return await called(self, *given)

    async def call_many(self: Script[Any, Any], *given: Any) -> Any:
        ran(self)
        return await many(self, *given)

    for name, watched in (("__init__", init), ("run", call), ("many", call_many)):
        setattr(Script, name, watched)


_watch_scripts()  # before the conftests: what they import has scripts too
