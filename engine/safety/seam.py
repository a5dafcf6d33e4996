"""The place where an answer goes on that ended at its length limit. Pure."""

import re
from collections.abc import Sequence

from msgspec import Struct

from engine.safety.rules import Rule
from engine.safety.verdicts import Flag

TEXT_MAX = 4_096  # code points: more than any match but a private key, which is covered as it comes
KEY, KEY_BEGINS = "private_key", "-----BEGIN PRIVATE KEY-----\n"
BEHIND_REDACTION = Rule("", "", "redact", "platform", rest=True)
NUMBER = re.compile(r"_([0-9]{1,9})\]\Z")


class TextSeam(Struct, frozen=True, omit_defaults=True):
    """The end of what readers have of an answer, and the highest `numbers` of its placeholders by
    category. `redacted`: it ends with a placeholder, and what follows without a blank is that one's too."""

    text: str
    numbers: dict[str, int] = {}
    redacted: bool = False


def seam_behind(text: str, flags: Sequence[Flag]) -> TextSeam:
    """The seam behind this visible text with its flags. Where it ends with a placeholder, what follows may be
    more of what was redacted: of a private key its letters (tail.py), else the rest of a word (rest.py)."""
    numbers, redacted = dict[str, int](), False
    for flag in flags:
        found = NUMBER.search(text[flag.p : flag.p + flag.n]) if flag.action == "redact" else None
        if found:
            numbers[flag.category] = max(numbers.get(flag.category, 0), int(found[1]))
        if flag.action == "redact" and flag.p + flag.n == len(text):
            if flag.category == KEY:
                return TextSeam(text[: flag.p][-TEXT_MAX:] + KEY_BEGINS, numbers)
            redacted = True
    return TextSeam(text[-TEXT_MAX:], numbers, redacted)
