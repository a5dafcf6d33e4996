"""Whether a version's files and this node's settings are those that its fingerprint was made of.

Sizes and times are looked at before each start of a worker; a file with another time counts by its hash, as
whoever copies a folder may give it new times. Reads files, writes none.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from core.configuration.settings import Settings
from core.errors import StartupError
from core.observability.error_facts import reason
from engine.models.fingerprint import covered, digest, rule_of
from engine.models.folder import MANIFEST
from engine.models.registry import ModelRecord

Manifest = Mapping[str, Any]


def measured(folder: Path) -> dict[str, dict[str, int]]:
    """Size and time of change of all files that a fingerprint covers, for a manifest."""
    stats = {file.name: file.stat() for file in covered(folder)}
    return {
        "bytes": {name: stat.st_size for name, stat in stats.items()},
        "mtime_ns": {name: stat.st_mtime_ns for name, stat in stats.items()},
    }


def check_files(folder: Path, manifest: Manifest) -> None:
    """Raise StartupError where a file of a prepared folder is gone or is another. A manifest of before says
    no sizes: nothing is checked."""
    sizes, times = manifest.get("bytes", {}), manifest.get("mtime_ns", {})
    for name, size in sizes.items():
        try:
            stat = (folder / name).stat()
        except OSError as error:
            raise StartupError(
                f"{_named(manifest)}: {folder / name} cannot be read: {reason(error)}"
            ) from error
        if stat.st_size != size:
            raise _changed(folder / name, manifest, f"{size:,} bytes then, {stat.st_size:,} now")
        if stat.st_mtime_ns != times.get(name) and digest(folder / name) != manifest["sha256"][name]:
            raise _changed(folder / name, manifest, "the same size, another content")


def check_settings(record: ModelRecord, settings: Settings) -> None:
    """Raise StartupError, with both values, where this node would run a version by other settings than its
    fingerprint was made with: answers that began elsewhere would go on as another model's. Pure."""
    if record.dtype is None:
        return
    asked = settings.worker_max_model_len or record.max_model_len
    for name, was, here in (
        ("PARLEY_WORKER_DTYPE", record.dtype, settings.worker_dtype),
        ("PARLEY_WORKER_MAX_MODEL_LEN", record.max_model_len, min(asked, record.max_model_len)),
    ):
        if was != here:
            raise StartupError(
                f"{record.name} {record.version} was added with {name} {was}, and this node has {here}: set "
                "the same, or add it again on a node with this setting (`parley models add`)"
            )


def changed_files(folder: Path, manifest: Manifest, tell: Callable[[str], None]) -> list[str]:
    """Files whose hash is another than the manifest's, what is gone and what is new included. Reads all of
    them; `tell` is given a line for each."""
    wanted, now = manifest["sha256"], {file.name: file for file in covered(folder, rule_of(manifest))}
    changed = list[str]()
    for name in sorted({*wanted, *now}):
        if name not in now:
            state = "is gone"
        elif name not in wanted:
            state = "is new"
        else:
            state = "is unchanged" if digest(now[name]) == wanted[name] else "is another"
        tell(f"{name} {state}")
        changed += [name] if state != "is unchanged" else []
    return changed


def _changed(file: Path, manifest: Manifest, how: str) -> StartupError:
    return StartupError(
        f"{_named(manifest)}: {file.resolve()} was changed since it was prepared ({how}): put it back, or "
        "add the folder again, which makes another version (`parley models add`)"
    )


def _named(manifest: Manifest) -> str:
    return f"{manifest['name']} {manifest['version']}"


def check_runnable(record: ModelRecord, settings: Settings) -> None:
    """Raise StartupError where a worker of this node must not run a version: settings or files are others."""
    check_settings(record, settings)
    manifest = record.folder / MANIFEST
    if manifest.is_file():
        check_files(record.folder, json.loads(manifest.read_text()))
