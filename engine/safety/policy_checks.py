"""Decides whether a level's document may become a policy: what it names, its limits, its patterns. Pure."""

import re
from collections import Counter
from difflib import get_close_matches

from engine.safety.cost_trial import too_dear
from engine.safety.detectors import CATEGORIES, DETECTORS
from engine.safety.documents import (
    DOCUMENT_BYTES_MAX,
    PolicyDetector,
    PolicyDocument,
    PolicyError,
    PolicyPattern,
    stored,
)
from engine.safety.folding import BREAK, folded
from engine.safety.patterns import PatternError, parsed, shown
from engine.safety.policy import own_rule, words_rule
from engine.safety.rules import RulePattern
from engine.safety.slips import slip_in

PATTERNS_MAX = 128
LISTS_MAX = 16
WORDS_MAX = 10_000  # of all lists
WORD_LENGTH_MAX = 64
NAME = re.compile("[a-z][a-z0-9_]{0,63}")


def checked(document: PolicyDocument) -> None:
    """Raises PolicyError: the entry that no policy may have, and why. Takes up to seconds of CPU."""
    if (size := len(stored(document))) > DOCUMENT_BYTES_MAX:
        raise PolicyError(f"the document has {size:,} bytes; {DOCUMENT_BYTES_MAX:,} at most")
    _check_limits(document)
    names = Counter(entry.name for entry in document.entries())
    for entry in document.entries():
        if entry.action is None and entry.prompt is None:
            raise PolicyError(f"{entry.name}: neither action nor prompt says what to do")
        if names[entry.name] > 1:
            raise PolicyError(f"{entry.name} is named twice")
        if isinstance(entry, PolicyDetector):
            _check_detector(entry)
        else:
            _check_name(entry.name)
    for own in document.patterns:
        _check_pattern(own)
    _check_cost(document)


def _check_limits(document: PolicyDocument) -> None:
    words = [word for each in document.words for word in each.words]
    for found, most, what in (
        (len(document.patterns), PATTERNS_MAX, "patterns"),
        (len(document.words), LISTS_MAX, "word lists"),
        (len(words), WORDS_MAX, "words"),
    ):
        if found > most:
            raise PolicyError(f"{found:,} {what}; {most:,} at most")
    for each in document.words:
        if not each.words:
            raise PolicyError(f"{each.name} has no words")
        for number, word in enumerate(each.words, 1):
            if why := _wrong_in(word):
                raise PolicyError(f"words {each.name}, word {number}: {why}")


def _wrong_in(word: str) -> str:
    """Why this is no word to look for; empty where it is one."""
    if len(word) > WORD_LENGTH_MAX:
        return f"{word[:WORD_LENGTH_MAX]!r}…: a word has {WORD_LENGTH_MAX} characters at most"
    if not folded(word).plain.strip() or BREAK in word:
        return f"{word!r}: a word has a letter that can be seen, and no U+0000"
    return ""


def _check_detector(asked: PolicyDetector) -> None:
    if (asked.name, asked.version) not in DETECTORS:
        known = ", ".join(sorted(f"{name} {version}" for name, version in DETECTORS))
        near = get_close_matches(asked.name[:64].lower(), sorted({name for name, _ in DETECTORS}), n=1)
        meant = f"; did you mean {near[0]}?" if near and near[0] != asked.name else ""
        named = f"no detector {asked.name[:64]} version {asked.version}"
        raise PolicyError(f"{named}; there are {known}{meant}")


def _check_name(name: str) -> None:
    if NAME.fullmatch(name) is None:
        raise PolicyError(
            f"{name[:64]!r}: a name has small letters, digits and _, begins with a letter, ≤ 64"
        )
    if name in CATEGORIES:
        raise PolicyError(f"{name} is a detector's name")


def _check_pattern(own: PolicyPattern) -> None:
    if slip := slip_in(own.pattern):
        raise PolicyError(f"pattern {own.name}: {shown(own.pattern)}: {slip}")
    try:
        parsed(own.pattern)
        RulePattern(0, own_rule(own, "flag"))
    except PatternError as error:
        raise PolicyError(f"pattern {own.name}: {error}") from error


def _check_cost(document: PolicyDocument) -> None:
    rules = [own_rule(own, "redact") for own in document.patterns]
    found = too_dear([*rules, *(words_rule(each, "redact") for each in document.words)])
    if found is None:
        return
    rule, cost = found
    why = f"{cost:.0f} µs of CPU for a byte of hostile text, all that is here together"
    if rule.words:
        raise PolicyError(f"words {rule.category}: the lists are too dear: {why}. Take fewer lists")
    advice = "Repeat and nest less, begin with fixed letters"
    raise PolicyError(f"pattern {rule.category}: {rule.pattern!r} is too dear: {why}. {advice}")
