"""The tables of docs/settings.md, made from the sentence under each setting
(`core/configuration/*_settings.py`), its default and its bounds."""

import ast
import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from core.configuration.bounds import NUMBER_MAX, SECONDS_MAX
from core.configuration.settings import Settings
from core.configuration.settings_part import SettingsPart
from scripts.check_docs.tree import Fault

PAGE = "docs/settings.md"
MADE = "<!-- What follows is made by `python -m scripts.check_docs --write`. -->\n"
SECTION = re.compile(r"^    # (.+)$", re.MULTILINE)
UNITS = (("_ms", "ms"), ("_seconds", "s"), ("_seconds_max", "s"), ("_days", "days"), ("_mib", "MiB"))
ENDS_UNSAID = (NUMBER_MAX, SECONDS_MAX, SECONDS_MAX * 1000)  # far from what anybody wants


@dataclass(frozen=True)
class SettingText:
    """A setting as its source has it, with its line there; a sentence may be missing: empty."""

    section: str
    name: str
    sentence: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class Tables:
    """The settings in their order, and their defaults and bounds by name."""

    texts: Sequence[SettingText]
    fields: Mapping[str, FieldInfo]

    @classmethod
    def of_settings(cls) -> "Tables":
        """The tables of the settings as they are."""
        parts = [each for each in Settings.__mro__ if issubclass(each, SettingsPart)]
        texts = [text for part in parts if part not in (Settings, SettingsPart) for text in _texts_of(part)]
        return cls(texts, Settings.model_fields)

    def faults(self, page: str) -> list[Fault]:
        """Faults of the source, else the first line of the page that is not what would be written."""
        if faults := self.faults_of_source():
            return faults
        lines = zip_longest(page.splitlines(), self.page_of(page).splitlines())
        what = "not what the settings say: run `python -m scripts.check_docs --write`"
        return [Fault(PAGE, at, what) for at, (is_, due) in enumerate(lines, start=1) if is_ != due][:1]

    def faults_of_source(self) -> list[Fault]:
        """Settings without a sentence or a section, and ones that may be 0 and do not say what 0 is."""
        return [
            Fault(text.file, text.line, f"{_variable(text.name)} {what}")
            for text in self.texts
            if (what := _lacks(text, self.fields[text.name]))
        ]

    def page_of(self, page: str) -> str:
        """The page with its tables as they shall be; what is before the mark stays."""
        tables: list[str] = []
        for section, of_it in groupby(self.texts, lambda text: text.section):
            rows = [_row(text, self.fields[text.name]) for text in of_it]
            head = "| variable | default | takes | meaning |\n|---|---|---|---|"
            tables.append("\n".join([f"\n## {section}\n", head, *rows, ""]))
        return page.partition(MADE)[0] + MADE + "".join(tables)


def texts_in(source: str, file: str = "", above: int = 0) -> list[SettingText]:
    """The settings of a class in their order: a comment begins a section, a text below is a sentence.
    `above`: how many lines of the file stand above the class."""
    sections = {source[: found.start()].count("\n") + 1: found[1] for found in SECTION.finditer(source)}
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef), "a part of the settings is a class"
    texts: list[SettingText] = []
    for node, after in zip(body.body, [*body.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            section = sections.get(max((line for line in sections if line < node.lineno), default=0), "")
            line = above + node.lineno
            texts.append(SettingText(section, node.target.id, _sentence(after), file, line))
    return texts


def takes(name: str, field: FieldInfo) -> str:
    """The texts that a setting may be, in a few words."""
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


def _texts_of(part: type) -> list[SettingText]:
    lines, first = inspect.getsourcelines(part)
    return texts_in("".join(lines), part.__module__.replace(".", "/") + ".py", first - 1)


def _sentence(node: ast.stmt | None) -> str:
    if (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ):
        return " ".join(node.value.value.split())
    return ""


def _lacks(text: SettingText, field: FieldInfo) -> str:
    """The fault of a setting's text; empty: none."""
    if not text.sentence:
        return "has no sentence: write one under it"
    if not text.section:
        return "is in no section: put it under a comment that names one"
    if _may_be_none(field) and not re.search(r"\b0\b", text.sentence):
        return "may be 0, and its sentence does not say what 0 is: say so"
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
    """0 is no number as others: of a port it is one, and is no limit of anything."""
    return any(each.ge == 0 for each in _all(field, Ge)) and not any(
        each.le not in ENDS_UNSAID for each in _all(field, Le)
    )


def _all(field: FieldInfo, kind: type[Any]) -> list[Any]:
    inner = [getattr(each, "__metadata__", ()) for each in get_args(field.annotation)]
    found = [*field.metadata, *(each for metadata in inner for each in metadata)]
    found += [each for one in found if isinstance(one, FieldInfo) for each in one.metadata]
    return [each for each in found if isinstance(each, kind)]
