"""Reads files of heads that were kept elsewhere."""

from collections.abc import Generator, Sequence
from pathlib import Path

from billing.audit_heads.heads import LINE_CHARACTERS_MAX, ChainHead, is_signed, read_line
from billing.audit_heads.stores import files_of, key_of
from core.configuration.settings import Settings
from core.errors import StartupError
from core.observability.error_facts import reason

OTHERS_MAX = 3


def chosen_files(settings: Settings, files: Sequence[Path]) -> Sequence[Path]:
    """These files, else those of PARLEY_AUDIT_HEADS that exist."""
    return files or [path for path in files_of(settings) if path.exists()]


def lines_of(path: Path) -> Generator[str]:
    """The lines of a file, long ones in pieces. Raises StartupError where it cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            while line := file.readline(LINE_CHARACTERS_MAX + 2):
                yield line
    except OSError as error:
        raise StartupError(f"cannot read {path}: {reason(error)}") from error


def require_heads(settings: Settings, files: Sequence[Path]) -> None:
    """Raise StartupError for a file that somebody names and in which no line is a head of this installation:
    it would prove nothing, without a word."""
    for path in files:
        heads = (head for line in lines_of(path) if (head := read_line(line)) is not None)
        others: set[str] = set()
        for head in heads:
            if head.installation == settings.installation:
                break
            if len(others) < OTHERS_MAX:
                others.add(head.installation)
        else:
            named = ", ".join(map(repr, sorted(others)))
            of = f" of {settings.installation!r}, only of {named}" if others else ""
            raise StartupError(
                f"{path} has no audit head{of}: name a file that was kept of `parley audit head`"
            )


def read_heads(settings: Settings, files: Sequence[Path] = ()) -> Generator[ChainHead]:
    """Yield this installation's heads of these files, else of those of PARLEY_AUDIT_HEADS; where there is a
    key, only signed ones. Raises StartupError where a file cannot be read."""
    key = key_of(settings)
    for path in chosen_files(settings, files):
        for line in lines_of(path):
            head = read_line(line)
            if head is None or head.installation != settings.installation:
                continue
            if key is None or is_signed(head, key):
                yield head
