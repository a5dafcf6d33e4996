"""A level's document as a file that people edit: `parley safety show` writes it, `set` reads it. Pure.

Beside the document it has `base`, the newest version when it was shown: who sets it has seen that one. A list
may name a text file in place of its words (`words_file`), which the caller reads.
"""

import json
import re
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import PurePath
from typing import Any, cast, get_args

import msgspec

from engine.policies.levels import SCOPE, level_facts
from engine.policies.word_files import text_of, word_file
from engine.safety.documents import (
    DOCUMENT_BYTES_MAX,
    PolicyDetector,
    PolicyDocument,
    PolicyError,
    PolicyPattern,
    PolicyWords,
    document_of,
)
from engine.safety.verdicts import Action

BASE = "base"
WORDS_FILE = "words_file"
ACTIONS: tuple[str, ...] = get_args(Action)
_ENTRIES = {"detectors": PolicyDetector, "patterns": PolicyPattern, "words": PolicyWords}
_NO_NAME = re.compile("[\0\ud800-\udfff]")  # in no file's name
_BACKSLASH = r"; in JSON a pattern's backslash is written twice: \\b, \\d"


class LevelFile(msgspec.Struct, frozen=True):
    """A file's document, not checked further (engine/safety/policy_checks.py), and its `base`; None: it names
    none. `notes`: what became of files of words, for people."""

    document: PolicyDocument
    base: int | None
    notes: list[str]


def file_facts(document: PolicyDocument, base: int) -> dict[str, Any]:
    """What a file says, in JSON's types."""
    return {BASE: base, **level_facts(document)}


def level_file(data: bytes, read: Callable[[str], bytes]) -> LevelFile:
    """What this file says; `read` gives what stands in a file that it names. Raises PolicyError: where it is
    no JSON, or names what there is not."""
    if len(data) > DOCUMENT_BYTES_MAX:
        raise PolicyError(
            f"a document has {DOCUMENT_BYTES_MAX >> 10} KiB at most, this one {len(data):,} bytes"
        )
    value = _json(data)
    if not isinstance(value, dict):
        raise PolicyError("a document is an object: {…}")
    said = cast(dict[str, Any], value)
    base = said.pop(BASE, None)
    if base is not None and (type(base) is not int or base < 0):
        raise PolicyError(f"`{BASE}` is a version's number, as `parley safety show` writes it")
    _check_names(said, list(_ENTRIES), "")
    notes: list[str] = []
    for kind, entries in said.items():
        _check_entries(kind, entries)
        notes += [_with_words(entry, read) for entry in entries if WORDS_FILE in entry]
    try:
        return LevelFile(document_of(msgspec.json.encode(said)), base, notes)
    except UnicodeEncodeError as error:
        raise PolicyError("half of a surrogate pair (\\ud800 to \\udfff) is no letter") from error


def _with_words(entry: dict[str, Any], read: Callable[[str], bytes]) -> str:
    """Put a file's words in its place; what became of it."""
    name = entry.pop(WORDS_FILE)
    if not _is_beside(name):
        raise PolicyError(f"words, {entry['name']}: `{WORDS_FILE}` is a file in the document's own folder")
    try:
        found = word_file(read(name))
    except PolicyError as error:
        raise PolicyError(f"words, {entry['name']}: {name}: {error}") from error
    entry["words"] = found.words
    return found.note(name)


def _is_beside(name: str) -> bool:
    path = PurePath(name)
    return bool(name) and not _NO_NAME.search(name) and not path.is_absolute() and ".." not in path.parts


def _json(data: bytes) -> Any:
    try:
        text = text_of(data)
    except UnicodeDecodeError as error:
        raise PolicyError(f"it is no text: see byte {error.start:,}") from error
    if not text.strip():
        raise PolicyError("it is empty; a document without rules is {}")
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        hint = _BACKSLASH if "escape" in error.msg else ""
        raise PolicyError(
            f"no JSON at line {error.lineno}, column {error.colno}: {error.msg}{hint}"
        ) from error
    except RecursionError as error:
        raise PolicyError("its brackets are too deep") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise PolicyError(f"`{twice}` stands twice in one object, and only one can count")
    return found


def _check_entries(kind: str, entries: Any) -> None:
    if not isinstance(entries, list):
        raise PolicyError(f"{kind}: a list of objects: [{{…}}]")
    for number, entry in enumerate(cast(list[Any], entries), 1):
        if not isinstance(entry, dict):
            raise PolicyError(f"{kind}, entry {number}: an object: {{…}}")
        said = cast(dict[str, Any], entry)
        _check_entry(kind, said, f"{kind}, {said.get('name') or f'entry {number}'}: ")


def _check_entry(kind: str, said: dict[str, Any], where: str) -> None:
    if SCOPE in said:
        raise PolicyError(f"{where}leave out `{SCOPE}`, which follows from where it is saved")
    fields = [each for each in msgspec.structs.fields(_ENTRIES[kind]) if each.name != SCOPE]
    required = {each.name for each in fields if each.required}
    _check_names(said, [each.name for each in fields] + [WORDS_FILE] * (kind == "words"), where)
    if WORDS_FILE in said:
        if "words" in said or not isinstance(said[WORDS_FILE], str):
            raise PolicyError(f"{where}`{WORDS_FILE}` is a file's name in place of `words`")
        required.discard("words")
    if missing := sorted(required - said.keys()):
        raise PolicyError(f"{where}`{missing[0]}` is missing")
    for name in ("action", "prompt"):
        if isinstance(action := said.get(name), str) and action not in ACTIONS:
            raise PolicyError(f"{where}`{name}` is {_listed(action, ACTIONS)}")


def _check_names(said: dict[str, Any], known: list[str], where: str) -> None:
    for name in said:
        if name not in known:
            raise PolicyError(f"{where}there is no `{name[:64]}`, but {_listed(name, known)}")


def _listed(given: str, known: list[str] | tuple[str, ...]) -> str:
    """The names that there are, and which one may be meant."""
    near = get_close_matches(given[:64].lower(), known, n=1)
    return f"{', '.join(known[:-1])} or {known[-1]}" + (f"; did you mean {near[0]}?" if near else "")
