"""Checks a model folder, and reads facts off it. Reads files, writes none."""

import json
from pathlib import Path
from typing import Any, cast

from core.errors import StartupError
from core.observability.error_facts import reason

WEIGHTS = "*.safetensors"
INDEX = "model.safetensors.index.json"
TEMPLATE = "chat_template.jinja"
MANIFEST = "manifest.json"


def check(folder: Path) -> None:
    """Raise a StartupError that names everything that is missing from a model folder."""
    if not folder.is_dir():
        raise StartupError(f"there is no model folder {folder}")
    missing = [name for name in ("config.json", "tokenizer.json") if not (folder / name).is_file()]
    missing += _missing_weights(folder)
    if not missing and chat_template(folder) is None:
        missing = [f"{TEMPLATE} (or a chat_template in tokenizer_config.json)"]
    if missing:
        raise StartupError(f"the model folder {folder} has no {', no '.join(missing)}")
    max_model_len(folder)


def chat_template(folder: Path) -> str | None:
    """The model's chat template, from its own file or from the tokenizer's configuration."""
    if (folder / TEMPLATE).is_file():
        return (folder / TEMPLATE).read_text()
    path = folder / "tokenizer_config.json"
    template = _object(path).get("chat_template") if path.is_file() else None
    return template if isinstance(template, str) else None


def max_model_len(folder: Path) -> int:
    """Most tokens of prompt and answer that the model was made for."""
    path = folder / "config.json"
    config = _object(path)
    text = config.get("text_config")
    for place in (config, cast(dict[str, Any], text) if isinstance(text, dict) else {}):
        for name in ("max_position_embeddings", "n_positions"):
            if isinstance(place.get(name), int):
                return int(place[name])
    raise StartupError(f"{path} does not say max_position_embeddings")


def _missing_weights(folder: Path) -> list[str]:
    if not (folder / INDEX).is_file():
        return [] if any(folder.glob(WEIGHTS)) else [WEIGHTS]
    shards: dict[str, str] = _object(folder / INDEX).get("weight_map", {})
    return [name for name in sorted(set(shards.values())) if not (folder / name).is_file()]


def _object(path: Path) -> dict[str, Any]:
    try:
        parsed = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise StartupError(f"cannot read {path}: {reason(error)}") from error
    if not isinstance(parsed, dict):
        raise StartupError(f"{path} is not a JSON object")
    return cast(dict[str, Any], parsed)
