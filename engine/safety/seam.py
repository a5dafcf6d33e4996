"""The place where an answer goes on that ended at its length limit. Pure."""

import re
from collections.abc import Sequence

from msgspec import Struct

from engine.safety.patterns import WIDTH_MAX
from engine.safety.rest import ends_word
from engine.safety.rules import Rule
from engine.safety.verdicts import Flag

TEXT_MAX = 4_096  # code points: more than any match but a private key, which is covered as it comes
KEY, KEY_BEGINS = "private_key", "-----BEGIN PRIVATE KEY-----\n"
BEHIND_REDACTION = Rule("", "", "redact", "platform", rest=True)
NUMBER = re.compile(r"_([0-9]{1,9})\]\Z")


class TextSeam(Struct, frozen=True, omit_defaults=True):
    """The end of what readers have of an answer, and the highest `numbers` of its placeholders by
    category. `redacted`: a placeholder stands in its last word, and what follows up to a blank may be its."""

    text: str
    numbers: dict[str, int] = {}
    redacted: bool = False


def seam_behind(text: str, flags: Sequence[Flag]) -> TextSeam:
    """The seam behind this visible text with its flags. Where it ends with the placeholder of a private key,
    what follows may be more of that key (tail.py). Where its last word has another, so may be the rest of
    that word (rest.py): letters behind the placeholder were perhaps too few to match with it."""
    numbers, redacted = dict[str, int](), False
    for flag in flags:
        found = NUMBER.search(text[flag.p : flag.p + flag.n]) if flag.action == "redact" else None
        if found:
            numbers[flag.category] = max(numbers.get(flag.category, 0), int(found[1]))
        behind = flag.p + flag.n
        if flag.action != "redact" or len(text) - behind > WIDTH_MAX:
            continue
        if flag.category != KEY:
            redacted = redacted or not any(map(ends_word, text[behind:]))
        elif behind == len(text):
            return TextSeam(text[: flag.p][-TEXT_MAX:] + KEY_BEGINS, numbers)
    return TextSeam(text[-TEXT_MAX:], numbers, redacted)
