"""Names that people choose (users, tenants, projects, keys, plans): one rule, checked at the edge. Pure.

A name is kept in Unicode's composed form (NFC), so that what looks the same is the same. It is 1 to 200
printable characters: no controls, no invisible or text-turning format characters, no halves of surrogate
pairs, none that Unicode keeps for private use or has not given a meaning; spaces inside, not at the ends.

A text that breaks this rule is stored in an escaped form. The rule refuses that form as a name, so it is
nobody else's, and no other text has it.
"""

import hashlib
import re
import unicodedata

from core.errors import bad_request

NAME_CHARACTERS_MAX = 200
RAW_CHARACTERS_MAX = 4 * NAME_CHARACTERS_MAX  # decomposed, a character may take several
NAME_RULE = f"1 to {NAME_CHARACTERS_MAX} printable characters, no space at the ends"
STORED_BYTES_MAX = 4 * NAME_CHARACTERS_MAX  # in UTF-8; an index of six of them is within Postgres' bounds
ESCAPED_MARK = "\ufdd0"  # a noncharacter, which Unicode leaves to programs: before a text with escapes
DIGESTED = "\ufdd1"  # and before the beginning and the digest of a text that is too long
DIGESTED_CHARACTERS = 16
UNSTORABLE = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\ud800-\\udfff\ufdd0\ufdd1]")
UNSHOWN = re.compile(rf"{UNSTORABLE.pattern}|[\u202a-\u202e\u2066-\u2069]")
NOT_QUERYABLE = re.compile("[\\x00\\ud800-\\udfff]")
ESCAPED = re.compile(rf"{UNSTORABLE.pattern}|\\")


def name_of(text: object) -> str | None:
    """The name that a text is, in NFC; None where it is none."""
    if not isinstance(text, str) or len(text) > RAW_CHARACTERS_MAX:
        return None
    name = unicodedata.normalize("NFC", text)
    good = 1 <= len(name) <= NAME_CHARACTERS_MAX and name.isprintable() and name == name.strip()
    return name if good else None


def is_visible(text: str) -> bool:
    """True where a reader sees something of a text."""
    return any(each.isprintable() and not each.isspace() for each in text)


def is_shown(text: str) -> bool:
    """True where a reader sees a text as it is: something of it is visible, nothing turns the rest around,
    and a database can hold it. For texts which, unlike names, may have joiners as emoji and Persian do."""
    return is_visible(text) and not UNSHOWN.search(text)


def checked_name(what: str, text: object, field: str | None = None) -> str:
    """The name that a text is. `what`: for the message; `field`: which field it is, by default `what`. Raises
    Refused."""
    name = name_of(text)
    if name is None:
        raise bad_request(f"{what}: expected a name of {NAME_RULE}", field=field or what)
    return name


def checked_user(text: object, what: str = "user") -> str:
    """The name of a tenant's end user, wherever one is named. Raises Refused."""
    return checked_name(what, text)


def forms_of(text: str) -> list[str]:
    """Forms under which a text may be stored as a name: unchanged or escaped, where it is older than the
    rule, and normalised as it is now."""
    found = [] if NOT_QUERYABLE.search(text) or len(text.encode()) > STORED_BYTES_MAX else [text]
    name = name_of(text)
    return found if name is None or name == text else [*found, name]


def same_name(one: str, other: str) -> bool:
    """True where two texts are one name. Compares in NFC, as names stored before the rule may not be."""
    return one == other or unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other)


def storable_name(text: str, bytes_max: int = STORED_BYTES_MAX) -> str:
    """The text where a database can hold it, else an escaped form that stands for no other text."""
    stored = ESCAPED_MARK + _escaped(text) if UNSTORABLE.search(text) else text
    if len(stored.encode()) <= bytes_max:
        return stored
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{DIGESTED}{_escaped(text[:DIGESTED_CHARACTERS])}…{digest}"


def _escaped(text: str) -> str:
    r"""The text with `\{hex}` for what cannot be stored and for the backslash."""
    return ESCAPED.sub(lambda found: f"\\{{{ord(found[0]):x}}}", text)
