"""Secrets that come by a file: PARLEY_SECRET_FILE names the file that holds PARLEY_SECRET, and so on."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from core.errors import StartupError

SUFFIX = "_FILE"
HANDED_ON = "PARLEY_SECRETS_FD"

_handed: dict[str, str] = {}  # secrets that this process handed to itself before it executed itself anew


class SecretFileSource(PydanticBaseSettingsSource):
    """Source of pydantic-settings for the secret fields: files, and what this process handed to itself."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Not called by pydantic-settings here: `__call__` reads all fields at once."""
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        """The secrets that a file holds."""
        prefix = str(self.config.get("env_prefix", ""))
        names = {name: f"{prefix}{name.upper()}" for name in secret_names(self.settings_cls)}
        return {**_taken(), **read_files(names, os.environ)}


def pass_secrets_on(secrets: Mapping[str, str]) -> tuple[str, str]:
    """Hand secrets to a process that executes itself anew without them in its environment. Returns name and
    value of the variable by which its settings find them, once."""
    read, write = os.pipe()
    os.set_inheritable(read, True)
    with os.fdopen(write, "w") as pipe:
        json.dump(dict(secrets), pipe)
    return HANDED_ON, str(read)


def _taken() -> dict[str, str]:
    descriptor = os.environ.pop(HANDED_ON, None)
    if descriptor is not None:
        with os.fdopen(int(descriptor)) as pipe:
            _handed.update(json.load(pipe))
    return _handed


def secret_names(settings: type[BaseSettings]) -> Iterable[str]:
    """The fields that are secret."""
    fields = settings.model_fields.items()
    return [name for name, field in fields if SecretStr in (field.annotation, *get_args(field.annotation))]


def read_files(names: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Field → secret, of field → variable. StartupError where a file cannot be read, or both are set."""
    found: dict[str, str] = {}
    for field, variable in names.items():
        if not (path := environment.get(variable + SUFFIX)):
            continue
        if environment.get(variable):
            raise StartupError(f"set {variable} or {variable}{SUFFIX}, not both")
        try:
            found[field] = Path(path).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise StartupError(f"cannot read {variable}{SUFFIX} {path}: {why}") from error
    return found
