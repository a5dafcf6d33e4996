"""Fixtures that all tests share: real Valkey, SQLite, Postgres, a provisioned model, a whole platform."""

import gc
import os
import shutil
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from filelock import FileLock
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis.strategies import text

from chaos.injected import switches
from chaos.installation.forked import forking
from core.configuration.settings import Settings
from core.sql.database import Database
from engine.models.provision import provision
from tests.support import (
    compiled,
    engines,
    frozen,
    groups,
    hangs,
    leaks,
    pauses,
    shared,
    statements,
    tiers,
)
from tests.support.emptied import EmptiedPostgres, emptied_postgres
from tests.support.groups import pytest_xdist_auto_num_workers
from tests.support.home import lend_model, settings_in, short_folder
from tests.support.patience import HANG_SECONDS, wall_seconds_max
from tests.support.platform import Platform, running_platform
from tests.support.processes import finished, parley
from tests.support.redis import Redis
from tests.support.shared import shared_postgres, shared_sqlite, worker_name
from tests.support.valkey import running_valkey

__all__ = ["pytest_xdist_auto_num_workers"]  # asked for before plugins of pytest_configure are there

CACHE = Path(__file__).parent.parent / ".cache"
MANY_TESTS = 100
# A starting engine may take minutes on a busy machine; requests wait for it. A second thread would make it a
# little faster, for more CPU time.
PATIENT = {"PARLEY_NO_WORKER_SECONDS_MAX": "600", "PARLEY_WORKER_THREADS": "1"}

# No generated test depends on how fast the machine is. CI's examples are new ones: .ci/run has their seed.
hypothesis_settings.register_profile(
    "parley",
    deadline=None,
    derandomize=False,
    print_blob=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,  # of a model's rules many do not apply
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,  # examples share a database: each makes rows of its own
    ],
)
hypothesis_settings.load_profile("parley")
# A client that names no deadline has one of 5 s by the wall.
for wait in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, wait, wall_seconds_max(HANG_SECONDS))


# Processes of the platform that tests start, and this one, obey the PARLEY_TEST_ switches.
switches.hand_on(os.environ)
switches.install()


def pytest_configure(config: pytest.Config) -> None:
    """What the suite does with itself."""
    for part in (
        compiled,
        frozen,
        engines,
        groups,
        shared,
        tiers,
        pauses,
        statements,
        leaks,
        hangs,
    ):
        config.pluginmanager.register(part, part.__name__)


@pytest.fixture(autouse=True, scope="module")
def _short_collections() -> None:  # pyright: ignore[reportUnusedFunction]
    """A full collection of all that thousands of tests imported would stop a gateway in this process for most
    of a second: it is set aside, module by module, once what is garbage is gone."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _characters() -> None:  # pyright: ignore[reportUnusedFunction]
    """The first text that a fresh checkout draws builds a table of all characters: not in a test, then, and
    by one worker, whose table the others read."""

    @hypothesis_settings(max_examples=1, database=None)
    @given(text())
    def draw(_: str) -> None:
        pass

    with FileLock(CACHE / "characters.lock"):
        draw()


@pytest.fixture(autouse=True, scope="session")
def _forks(request: pytest.FixtureRequest, _clean_environment: None) -> Generator[None]:  # pyright: ignore[reportUnusedFunction]
    """Processes of ours are forks of one that has imported everything: an interpreter of its own costs each
    over a second of CPU. Tests of a real start begin one themselves."""
    with forking(request.config.stash[leaks.LEAKS].spare):
        if len(request.session.items) > MANY_TESTS:  # its own start is then no single test's time
            finished(parley("--version"))
        yield


@pytest.fixture(autouse=True, scope="session")
def _clean_environment() -> None:  # pyright: ignore[reportUnusedFunction]
    """Tests see only the settings that they pass."""
    for name in [name for name in os.environ if name.startswith("PARLEY_") and "_TEST_" not in name]:
        del os.environ[name]


@pytest.fixture(autouse=True)
def _usual_umask() -> Generator[None]:  # pyright: ignore[reportUnusedFunction]
    """A command that ran in this process made new files its user's alone, and so would the next tests':
    Postgres, another user, could not read its own folder."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def valkey_url(pytestconfig: pytest.Config) -> Generator[str]:
    """The URL of one real Valkey for the whole run."""
    with short_folder("valkey") as folder, running_valkey(folder) as url:
        pytestconfig.stash[leaks.LEAKS].watch_redis(url)
        yield url
        pytestconfig.stash[leaks.LEAKS].watch_redis("")


@pytest.fixture
def redis_url(valkey_url: str, pytestconfig: pytest.Config) -> Generator[str]:
    """The URL of a real, empty Valkey. What writes there once the test is over is a leak."""
    yield valkey_url
    pytestconfig.stash[leaks.LEAKS].empty_redis()


@pytest.fixture
async def redis(redis_url: str) -> AsyncGenerator[Redis]:
    """A client of a real, empty Valkey."""
    client = Redis.from_url(redis_url)
    yield client
    await client.aclose()


@pytest.fixture
def home(request: pytest.FixtureRequest) -> Generator[Path]:
    """An empty PARLEY_HOME with a short path."""
    with short_folder("home", in_memory=True) as folder:
        yield folder
        pauses.keep_logs(request.node, folder)


@pytest.fixture
def settings(home: Path, redis_url: str) -> Settings:
    """Settings with an own data folder and the run's Valkey."""
    return settings_in(home, redis_url=redis_url)


@pytest.fixture(scope="session")
def sqlite_template(pytestconfig: pytest.Config) -> Path:
    """A migrated SQLite file, copied for each test: migrating takes longer than most tests."""
    return shared_sqlite(pytestconfig)


@pytest.fixture
async def sqlite(sqlite_template: Path, home: Path) -> AsyncGenerator[Database]:
    """A migrated, empty SQLite database at the home's default place."""
    shutil.copy(sqlite_template, home / "parley.db")
    opened = Database(f"sqlite+aiosqlite:///{home / 'parley.db'}")
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
def postgres_folder(pytestconfig: pytest.Config) -> Path:
    """The socket folder of the run's Postgres, which holds a migrated database `template_parley`."""
    return shared_postgres(pytestconfig)


@pytest.fixture(scope="session")
def emptied(postgres_folder: Path, pytestconfig: pytest.Config) -> Generator[EmptiedPostgres]:
    """A migrated Postgres database that the tests of one worker use in turn."""
    with emptied_postgres(postgres_folder, f"tests_{worker_name(pytestconfig)}") as database:
        yield database


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest, home: Path) -> Generator[str]:
    """The URL of a migrated, empty database: a test with this fixture runs on SQLite and on Postgres."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_template"), home / "parley.db")
        yield f"sqlite+aiosqlite:///{home / 'parley.db'}"
        return
    database: EmptiedPostgres = request.getfixturevalue("emptied")
    yield database.url
    database.reset()


@pytest.fixture
async def database(database_url: str) -> AsyncGenerator[Database]:
    """A migrated, empty database on SQLite and on Postgres."""
    opened = Database(database_url)
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """SmolLM2 as `parley up` provisions it; converted once per checkout, under .cache/."""
    with FileLock(CACHE / "smollm2.lock"):
        return provision("smollm2", CACHE, print)


@pytest.fixture(scope="session")
def platform(model_folder: Path, pytestconfig: pytest.Config) -> Generator[Platform]:
    """A whole platform with a real vLLM worker, started once: tests talk to it, the last one ends it."""
    with short_folder("platform") as home:
        lend_model(home, model_folder)
        with running_platform(home, environment=PATIENT) as running:
            yield running
        engines.count(pytestconfig, (home / "logs").glob("worker-*.log"))
