"""A model folder's tokenizer and the ids that end an answer."""

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from core.errors import StartupError


def load_tokenizer(folder: Path) -> Tokenizer:
    """The folder's tokenizer. Raises StartupError where there is none that can be read."""
    path = folder / "tokenizer.json"
    try:
        return Tokenizer.from_str(path.read_text())
    except Exception as error:  # the library raises Exception itself
        raise StartupError(f"cannot read the tokenizer {path}: {error}") from error


def stop_ids(folder: Path, tokenizer: Tokenizer) -> tuple[int, ...]:
    """End-of-sequence and end-of-turn ids, from every file that names one. Raises StartupError where none
    does."""
    found: set[int] = set()
    for name in ("generation_config.json", "config.json"):
        value = _object(folder / name).get("eos_token_id")
        found.update(value if isinstance(value, list) else [] if value is None else [value])
    token: Any = _object(folder / "tokenizer_config.json").get("eos_token")
    text = token.get("content") if isinstance(token, dict) else token
    if isinstance(text, str) and (id := tokenizer.token_to_id(text)) is not None:
        found.add(id)
    if not found:
        raise StartupError(f"no file of the model in {folder} names an end-of-sequence token")
    return tuple(sorted(found))


def _object(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise StartupError(f"cannot read {path}: {error}") from error
