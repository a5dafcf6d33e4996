"""Checks of what a pattern matched: cards by issuer and check digit, IBANs by country and check digits,
addresses by what follows them. Pure.

A check also says which ends are worth a try: `4111 1111 1111 1111 2` is a card before its last digit.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

# First digits from, to, and the lengths of numbers that begin so (ISO/IEC 7812, as card networks publish).
_ISSUERS: list[tuple[str, str, tuple[int, ...]]] = [
    ("2221", "2720", (16,)),  # Mastercard
    ("300", "305", (14, 16)),  # Diners Club
    ("34", "34", (15,)),  # American Express
    ("3528", "3589", (16,)),  # JCB
    ("36", "36", (14, 16)),
    ("37", "37", (15,)),
    ("38", "39", (14, 16)),
    ("4", "4", (16, 19)),  # Visa
    ("51", "55", (16,)),
    ("6011", "6011", (16, 19)),  # Discover
    ("62", "62", (16, 17, 18, 19)),  # UnionPay
    ("644", "649", (16, 19)),
    ("65", "65", (16, 19)),
    ("6759", "6759", (16, 18, 19)),  # Maestro
    ("6761", "6763", (16, 18, 19)),
]
# Length of an IBAN by country (ISO 13616 registry).
_IBAN_LENGTHS = {
    country: int(length)
    for length, countries in {
        "15": "NO",
        "16": "BE",
        "18": "DK FO FI GL NL SD FK",
        "19": "MK SI",
        "20": "AT BA EE KZ LT LU XK MN",
        "21": "CH HR LI LV",
        "22": "BG BH CR DE GB GE IE ME RS VA",
        "23": "AE GI IL IQ OM SO TL",
        "24": "AD CZ ES MD PK RO SA SE SK TN VG",
        "25": "LY PT ST",
        "26": "IS TR",
        "27": "BI DJ FR GR IT MC MR SM",
        "28": "AL AZ BY CY DO GT HU LB NI PL SV",
        "29": "BR EG PS QA UA",
        "30": "JO KW MU YE",
        "31": "MT SC",
        "32": "LC",
        "33": "RU",
    }.items()
    for country in countries.split()
}


# Of names such as `logo@2x.png`; no domain has one.
_FILE_ENDINGS = ("avif", "bmp", "gif", "heic", "ico", "jpeg", "jpg", "pdf", "png", "svg", "tiff", "webp")
_REMOTE_USERS = ("git@", "gitea@", "gitlab@", "hg@")


class MatchCheck(NamedTuple):
    """`good`: whether a text is what its pattern is after. `ends`: lengths of its beginnings to look at in
    its place, longest first; at most a handful, since hostile text has many matches. `whole`: no shorter
    one counts, so that a pattern can take in what may not stand behind."""

    good: Callable[[str], bool]
    ends: Callable[[str], Sequence[int]]
    whole: bool = False


def _card_lengths(digits: str) -> tuple[int, ...]:
    for low, high, lengths in _ISSUERS:
        if low <= digits[: len(low)] <= high:
            return lengths
    return ()


def _card_is_good(text: str) -> bool:
    digits = "".join(character for character in text if character.isdigit())
    if len(digits) not in _card_lengths(digits):
        return False
    doubled = [int(digit) * (2 if place % 2 else 1) for place, digit in enumerate(reversed(digits))]
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0


def _card_ends(text: str) -> list[int]:
    places = [at for at, character in enumerate(text) if character.isdigit()]
    lengths = _card_lengths("".join(text[at] for at in places))
    return [places[length - 1] + 1 for length in reversed(lengths) if length <= len(places)]


def _iban_is_good(text: str) -> bool:
    letters = "".join(character for character in text if character.isalnum())
    if len(letters) != _IBAN_LENGTHS.get(letters[:2]):
        return False
    return int("".join(str(int(letter, 36)) for letter in letters[4:] + letters[:4])) % 97 == 1


def _iban_ends(text: str) -> list[int]:
    places = [at for at, character in enumerate(text) if character.isalnum()]
    length = _IBAN_LENGTHS.get(text[:2], len(places) + 1)
    return [places[length - 1] + 1] if length <= len(places) else []


def _is_address(text: str) -> bool:
    """True unless it is a file's name or a remote's (`git@host:org/repo`, `user@host:/path`)."""
    address, is_remote, path = text.partition(":")
    address, slash, _ = address.partition("/")
    if address.rpartition(".")[2].lower() in _FILE_ENDINGS:
        return False
    if address.startswith(_REMOTE_USERS):
        return not (is_remote or slash)
    return path not in ("/", "~/")


def _has_digit(text: str) -> bool:
    return any(character.isdigit() for character in text)


CHECKS: dict[str, MatchCheck] = {
    "card": MatchCheck(_card_is_good, _card_ends),
    "iban": MatchCheck(_iban_is_good, _iban_ends),
    "address": MatchCheck(_is_address, lambda text: [len(text)], whole=True),
    "digit": MatchCheck(_has_digit, lambda text: [len(text)]),
}
