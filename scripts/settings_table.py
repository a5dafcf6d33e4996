"""Writes the tables of docs/settings.md from the sentence under each setting
(`core/configuration/*_settings.py`).

`--check` writes nothing, and fails where the page is not what would be written, a setting has no sentence, or
one that may be 0 does not say what 0 is.
"""

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from core.configuration.bounds import NUMBER_MAX, SECONDS_MAX
from core.configuration.settings import Settings
from core.configuration.settings_part import SettingsPart

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"
MADE = "<!-- What follows is made by scripts/settings_table.py. -->\n"
SECTION = re.compile(r"^    # (.+)$", re.MULTILINE)
UNITS = (("_ms", "ms"), ("_seconds", "s"), ("_seconds_max", "s"), ("_days", "days"), ("_mib", "MiB"))
ENDS_UNSAID = (NUMBER_MAX, SECONDS_MAX, SECONDS_MAX * 1000)  # far from what anybody wants


@dataclass(frozen=True)
class SettingText:
    """What the source says of one setting; no sentence is empty."""

    section: str
    name: str
    sentence: str


def main(check: bool) -> int:
    """1 where anything is wrong, after naming all of it."""
    texts = [text for part in _parts() for text in texts_in(inspect.getsource(part))]
    problems = problems_of(texts, Settings.model_fields)
    page = page_of(PAGE.read_text(), texts, Settings.model_fields) if not problems else ""
    if not problems and check and page != PAGE.read_text():
        problems = ["the tables are not those of the settings: run scripts/settings_table.py"]
    if not problems and not check:
        PAGE.write_text(page)
    said = f"{len(texts)} settings have a sentence each"
    print("\n".join(f"{PAGE.name}: {each}" for each in problems or [said]))
    return 1 if problems else 0


def texts_in(source: str) -> list[SettingText]:
    """The settings of a class in their order: a comment begins a section, a text below is a sentence."""
    sections = {source[: found.start()].count("\n") + 1: found[1] for found in SECTION.finditer(source)}
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef), "a part of the settings is a class"
    texts: list[SettingText] = []
    for node, after in zip(body.body, [*body.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            section = max((line for line in sections if line < node.lineno), default=0)
            texts.append(SettingText(sections.get(section, ""), node.target.id, _text(after)))
    return texts


def problems_of(texts: Sequence[SettingText], fields: dict[str, FieldInfo]) -> list[str]:
    """What is missing."""
    said = {text.name: text.sentence for text in texts}
    return [
        *(f"{_variable(name)} has no sentence" for name in fields if not said.get(name)),
        *(f"{_variable(text.name)} is in no section" for text in texts if not text.section),
        *(
            f"{_variable(name)} may be 0, and its sentence does not say what 0 is"
            for name, field in fields.items()
            if said.get(name) and _may_be_none(field) and not re.search(r"\b0\b", said[name])
        ),
    ]


def page_of(page: str, texts: Sequence[SettingText], fields: dict[str, FieldInfo]) -> str:
    """The page with its tables as they shall be; what is before the mark stays."""
    tables: list[str] = []
    for section, of_it in groupby(texts, lambda text: text.section):
        rows = [_row(text, fields[text.name]) for text in of_it]
        head = "| variable | default | takes | meaning |\n|---|---|---|---|"
        tables.append("\n".join([f"\n## {section}\n", head, *rows, ""]))
    return page.partition(MADE)[0] + MADE + "".join(tables)


def takes(name: str, field: FieldInfo) -> str:
    """What a setting's text may be, in a few words."""
    kinds = [kind for kind in (get_args(field.annotation) or (field.annotation,)) if kind is not NoneType]
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{kind}`" for kind in kinds)
    if kinds[0] is bool:
        return "`true`, `false`"
    if SecretStr in kinds:
        return "text, or `…_FILE`"
    numbers = _bounds(field)
    if not numbers:
        return "path" if kinds[0] is Path else "text"
    unit = next((f" {unit}" for end, unit in UNITS if name.endswith(end)), "")
    return ", ".join(numbers) + unit


def _parts() -> list[type]:
    return [each for each in Settings.__mro__ if issubclass(each, SettingsPart) and _is_part(each)]


def _is_part(kind: type) -> bool:
    return kind not in (Settings, SettingsPart)


def _text(node: ast.stmt | None) -> str:
    if (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ):
        return " ".join(node.value.value.split())
    return ""


def _row(text: SettingText, field: FieldInfo) -> str:
    sentence = text.sentence.replace("|", "\\|")
    return f"| `{_variable(text.name)}` | {_default(field)} | {takes(text.name, field)} | {sentence} |"


def _variable(name: str) -> str:
    return f"PARLEY_{name.upper()}"


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return "`~/.parley`"
    if field.default is None or field.default == "":
        return "unset" if field.default is None else "empty"
    return f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"


def _bounds(field: FieldInfo) -> list[str]:
    least = [f"≥ {each.ge}" for each in _all(field, Ge)] + [f"> {each.gt}" for each in _all(field, Gt)]
    return least + [f"≤ {each.le}" for each in _all(field, Le) if each.le not in ENDS_UNSAID]


def _may_be_none(field: FieldInfo) -> bool:
    """Whether 0 is no number as others: of a port it is one, and is no limit of anything."""
    return any(each.ge == 0 for each in _all(field, Ge)) and not any(
        each.le not in ENDS_UNSAID for each in _all(field, Le)
    )


def _all(field: FieldInfo, kind: type[Any]) -> list[Any]:
    inner = [getattr(each, "__metadata__", ()) for each in get_args(field.annotation)]
    found = [*field.metadata, *(each for metadata in inner for each in metadata)]
    found += [each for one in found if isinstance(one, FieldInfo) for each in one.metadata]
    return [each for each in found if isinstance(each, kind)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    sys.exit(main(parser.parse_args().check))
