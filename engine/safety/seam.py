"""The place where an answer goes on that ended at its length limit. Pure."""

import re
from collections.abc import Sequence

from msgspec import Struct

from engine.safety.verdicts import Flag

TEXT_MAX = 4_096  # code points: more than any match but a private key, which is covered as it comes
KEY, KEY_BEGINS = "private_key", "-----BEGIN PRIVATE KEY-----\n"
NUMBER = re.compile(r"_([0-9]{1,9})\]\Z")


class TextSeam(Struct, frozen=True, omit_defaults=True):
    """The end of what readers have of an answer, and the highest `numbers` of its placeholders by
    category."""

    text: str
    numbers: dict[str, int] = {}


def seam_behind(text: str, flags: Sequence[Flag]) -> TextSeam:
    """The seam behind this visible text with its flags. Where it ends with the placeholder of a private key,
    what follows may be more of that key."""
    numbers = dict[str, int]()
    for flag in flags:
        found = NUMBER.search(text[flag.p : flag.p + flag.n]) if flag.action == "redact" else None
        if found:
            numbers[flag.category] = max(numbers.get(flag.category, 0), int(found[1]))
        if flag.category == KEY and flag.action == "redact" and flag.p + flag.n == len(text):
            return TextSeam(text[: flag.p][-TEXT_MAX:] + KEY_BEGINS, numbers)
    return TextSeam(text[-TEXT_MAX:], numbers)
