"""The pool of `parley up`: filled at the first start, and from then on changed by nobody but who edits it."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from billing.pools import DesiredPool, fill_pool, read_pools
from core.configuration.settings import Settings
from core.errors import Refused, StartupError
from core.runtime.failed_rounds import store_errors
from core.sql.database import Database
from core.tasks import whole
from core.terminal.refused_text import refused_text
from engine.api import (
    MANIFEST,
    ModelRecord,
    find_version,
    is_passing,
    named_model,
    prepare_model,
    read_pool_states,
    register_model,
)

Say = Callable[[str], None]

LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class WantedPool:
    """What a start asks for. `model_named`: by an option or a setting; `workers` None: nothing was said."""

    model: str
    model_named: bool
    workers: int | None


async def ready_pool(
    db: Database, settings: Settings, asked: WantedPool, say: Say, program: str = "parley"
) -> ModelRecord:
    """Fill the pool PARLEY_POOL where it has no row; else say how it differs from what is asked. Returns the
    model that it runs, ready on disk. `program`: words of a shell that call `parley`."""
    target = next((each for each in await read_pools(db) if each.pool == settings.pool), None)
    if target is None:
        return await _filled(db, settings, asked, say)
    record = await _of_pool(db, settings, target, say, program)
    wanted = _wanted_model(asked, target, settings.home)
    for line in differences(target, asked, wanted, program):
        say(line)
    return record


def differences(
    target: DesiredPool, asked: WantedPool, wanted: tuple[str, str | None], program: str
) -> list[str]:
    """How a pool differs from what is asked, and that it has no workers, a line each with the command that
    changes it. `wanted`: the model's name and version (None: any). Pure."""
    pool, said = target.pool, list[str]()
    name, version = wanted
    here = f"{program} pools edit {pool}"
    if name != target.model:
        change = f"{program} models add {asked.model}, then {here} --model {name}"
        said.append(f"pool {pool} runs {target.model}, not {name}: to change it {change}")
    elif version not in (None, target.version):
        use = f"{program} models use {name} {version} --pool {pool}"
        change = f"{program} models add {asked.model}, then {use}"
        said.append(f"pool {pool} runs {name} {target.version}; there is {version}: to change it {change}")
    if asked.workers not in (None, target.workers):
        change = f"{program} pools resize {pool} {asked.workers}"
        said.append(f"pool {pool} has {target.workers} workers, not {asked.workers}: to change it {change}")
    elif target.workers == 0:
        said.append(f"pool {pool} is to have no workers: to change it {program} pools resize {pool} 1")
    if target.draining:
        said.append(f"pool {pool} takes nothing new: to change it {here} --state active")
    return said


async def _filled(db: Database, settings: Settings, asked: WantedPool, say: Say) -> ModelRecord:
    folder = await prepare_model(asked.model, settings.home, say)
    record = await register_model(db, folder, settings)
    try:
        await fill_pool(db, settings.pool, record.name, record.version, asked.workers or 1)
    except Refused as refused:
        say(f"pool {settings.pool} is not made: {refused_text(refused.refusal)}")
    return record


async def _of_pool(
    db: Database, settings: Settings, target: DesiredPool, say: Say, program: str
) -> ModelRecord:
    """The version that the pool runs, in this start's dtype; made again where its files are gone."""
    known = await find_version(db, target.model, target.version)
    if known is not None and (known.folder / MANIFEST).exists():
        return await register_model(db, known.folder, settings)
    record = await register_model(db, await prepare_model(target.model, settings.home, say), settings)
    if record.version != target.version:
        gone = f"the files of {target.model} {target.version}, which pool {target.pool} runs, are gone"
        change = f"{program} models use {target.model} {record.version} --pool {target.pool}"
        say(f"{gone}; there is {record.version}: to change it {change}")
    return record


def _wanted_model(asked: WantedPool, target: DesiredPool, home: Path) -> tuple[str, str | None]:
    """Name and version of the model that is asked for. What nobody named is the pool's, where it is another
    or cannot be had."""
    try:
        name, version = named_model(asked.model, home)
    except StartupError:
        if asked.model_named:
            raise
        return target.model, None
    return (name, version) if asked.model_named or name == target.model else (target.model, None)


class PoolReasons:
    """The reasons why pools are not as they should be, said as they change."""

    def __init__(self, settings: Settings, say: Say) -> None:
        self._settings = settings
        self._say = say
        self._said = dict[str, str]()

    async def run(self) -> None:
        """Look every second, for ever. A database that is away is others' to tell."""
        db = Database(self._settings.database_endpoint)
        try:
            while True:
                with contextlib.suppress(*store_errors()):
                    self.see({row.pool: row.why for row in await whole(read_pool_states(db))})
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await db.close()

    def see(self, reasons: Mapping[str, str]) -> None:
        """Say reasons that are new, but for those that a start or a drain is by itself."""
        for pool, why in reasons.items():
            if why != self._said.get(pool) and not is_passing(why):
                self._say(f"pool {pool}: {why}")
        self._said = dict(reasons)
