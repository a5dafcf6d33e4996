"""A list of words as a text file, one word or phrase a line. Pure."""

import json

import msgspec

from engine.safety.documents import DOCUMENT_BYTES_MAX, PolicyError
from engine.safety.folding import folded


class WordFile(msgspec.Struct, frozen=True):
    """The words of a text, each once, and what is left out: blank lines, and words that are there already as
    they are looked for (`Heron` is `heron`)."""

    words: list[str]
    blank: int
    again: int

    def note(self, name: str) -> str:
        """What became of it, for people."""
        left_out = [
            f"{count:,} {one if count == 1 else many}"
            for count, one, many in (
                (self.blank, "blank line", "blank lines"),
                (self.again, "word that is there already", "words that are there already"),
            )
            if count
        ]
        rest = f"; left out: {', '.join(left_out)}" if left_out else ""
        return f"{name}: {len(self.words):,} words{rest}"


def word_file(data: bytes) -> WordFile:
    """Raises PolicyError: it is too long or no text, or has no words."""
    if len(data) > DOCUMENT_BYTES_MAX:
        raise PolicyError(f"a file of words has {DOCUMENT_BYTES_MAX >> 10} KiB at most")
    try:
        lines = text_of(data).splitlines()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise PolicyError(f"line {line:,} is not UTF-8") from error
    words: dict[str, str] = {}
    blank = 0
    for line in lines:
        if word := line.strip():
            words.setdefault(folded(word).plain, word)
        else:
            blank += 1
    if not words:
        raise PolicyError("it has no words: write one a line")
    return WordFile(list(words.values()), blank, len(lines) - blank - len(words))


def text_of(data: bytes) -> str:
    """The text in a file, with or without a byte order mark, as editors and shells save it. Raises
    UnicodeDecodeError."""
    return data.decode(json.detect_encoding(data))
