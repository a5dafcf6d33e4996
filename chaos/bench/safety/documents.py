"""Random documents for the safety filter: secrets, their beginnings, what nearly is one, prose between. Pure.

Nothing in here is anybody's: numbers are examples of their issuers, keys are made up.
"""

import json
import re
from dataclasses import replace
from random import Random

from engine.safety.detectors import DETECTORS
from engine.safety.rules import Rule

SECRETS = (
    "4111 1111 1111 1111",
    "4111111111111111",
    "378282246310005",
    "3782-822463-10005",
    "6011 1111 1111 1117",
    "5555-5555-5555-4444",
    "30569309025904",
    "4111 1111 1111 1111 2",
    "6212345678901232 1",
    "DE89 3704 0044 0532 0130 00",
    "GB82WEST12345698765432",
    "NO93 8601 1117 947",
    "MT84MALT011000012345MTLCAST001S",
    "AKIAIOSFODNN7EXAMPLE",
    "_AKIAIOSFODNN7EXAMPLEQ",
    "xoxb-1234567890ab-cdef",
    "sk-proj-abcdefghij0123456789",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEK1Y",
    "ghp_" + "a1B2" * 9,
    "hf_" + "Zx" * 17,
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n  IBAAKC=\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY-----",
    "-----END EC PRIVATE KEY-----",
    "-----BEGIN EC PRIVATE KEY-----\r\nProc-Type: 4,ENCRYPTED\r\nDEK-Info: AES-128-CBC,0123456789abcdef"
    "\r\n\r\nMII=",
    "-----BEGIN PRIVATE KEY-----\nAKIAIOSFODNN7EXAMPLE",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY----- MIIEvQIBADANBgkqhkiG9w0 BAQEFAASCBKcwggSjAg -----END PRIVATE KEY-----",
    '"-----BEGIN PRIVATE KEY-----\\n" +\n"MIIEvQIBADANBgkqhkiG9w0\\n" +\n"BAQ=\\n-----END PRIVATE KEY-----"',
    "> -----BEGIN RSA PRIVATE KEY-----\n> Proc-Type: 4,ENCRYPTED\n>\n> MIIEvQIBADANBgkqhkiG9w0",
    "0.4276844298184532",
    "4111\u202f1111\u202f1111\u202f1111",
    "bob@example.com",
    "a.very.long.name+tag@mail.example.co.uk",
    "+49 170 1234567",
    "415-555-2671",
    "(415) 555-2671",
    "[EMAIL_1]",
    "[CARD_1]",
    "[CARD_1]@example.com",
)
PROSE = (
    " ",
    " ",
    "\n",
    " the ",
    "call me ",
    "at 12:30, ",
    "é",
    "日本語",
    "🙂",
    "a\u0301",
    "\u202e",
    "\u00a0",
    "1764000000000",
    "4111",
    " 55",
    "DE89 ",
    "x",
    "-",
    "-----",
    "key: ",
    '{"a": "b"}',
    "`",
    "_",
    "@",
    ".",
    "AK",
    "3",
    "sk-",
    "+1 ",
    "\\n",
)
# Small patterns that overlap in every way, beside the detectors' own.
SMALL = (
    "ab{1,3}c",
    r"\bcall\b",
    "[0-9a]{2,4}",
    "(?i:the|CALL)x?",
    r"k\Be?y?",
    "b(?:ob|.{1,3}@)",
    r"é[^\d]{0,2}",
    "e: (?P<part>.{1,3})",
)
# Words that begin and contain one another, look like others, or have no blanks beside them.
WORDS = (
    *(
        "blue heron",
        "blue",
        "heron",
        "herons",
        "call",
        "call me",
        "key",
        "C3",
        "o2",
        "@bob",
        "x",
        "the-x",
        "ab c",
    ),
    *("Straße", "ﬁsh", "ключ", "сор", "cop", "日本", "本語", "각", "काम", "a\u0301b", "🙂", "λόγος"),
)
LETTERS_ALIKE = dict(zip("abcehiklmnoprstuxy", "аbсеһіkⅼмnоρrѕtuху", strict=True))
NAMES = ("name", "note", "kind", "call")
ESCAPED = 0.1
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
LETTER = re.compile(r"\\u[0-9a-f]{4}|\\.|[A-Za-z0-9]")
ACTIONS = ("block", "redact", "flag", "redact", "flag")


def document(random: Random) -> str:
    """One to a dozen pieces."""
    pieces: list[str] = []
    for _ in range(random.randint(1, 12)):
        piece = random.choice(SECRETS if random.random() < 0.5 else PROSE)
        if random.random() < 0.3:
            piece = disguised(random, random.choice(WORDS))
        cut = random.random()
        pieces.append(piece[: random.randint(0, len(piece))] if cut < 0.15 else piece)
    return "".join(pieces)


def disguised(random: Random, word: str) -> str:
    """The word as it is, or with letters of another width, case or alphabet, and with what nobody sees."""
    how = random.choice((0, 0, 0.1, 0.5, 1))
    return "".join(_disguised(random, letter) if random.random() < how else letter for letter in word)


def _disguised(random: Random, letter: str) -> str:
    match random.randrange(6):
        case 0:
            return letter + random.choice(("\u200b", "\u00ad", "\u200d\ufe0f", "\u200b" * 40))
        case 1:
            return letter + "\u0301" * random.choice((1, 2, 33))
        case 2:
            return letter.swapcase()
        case 3:
            return chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter
        case 4:
            return random.choice((" \n", "\u00a0", "\u3000\t", "\u200b ")) if letter == " " else letter
        case _:
            return LETTERS_ALIKE.get(letter, letter)


def rules(random: Random) -> list[Rule]:
    """Detectors and small patterns with actions by chance."""
    found: list[Rule] = []
    for detector in DETECTORS.values():
        action = random.choice(ACTIONS[1:] if random.random() < 0.8 else ACTIONS)
        scope = random.choice(("platform", "tenant", "project"))
        found += [
            Rule(
                each.pattern,
                detector.category,
                action,
                scope,
                each.check,
                each.tail,
                each.joins,
                each.not_behind,
            )
            for each in detector.patterns
        ]
    found += [
        Rule(pattern, random.choice(("own", "card")), random.choice(ACTIONS), "tenant")
        for pattern in random.sample(SMALL, random.randint(0, 2))
    ]
    for number in range(random.choice((0, 1, 1, 2))):
        words = tuple(random.sample(WORDS, random.randint(1, len(WORDS))))
        category = random.choice((f"words{number}", "own"))
        found.append(Rule("", category, random.choice(ACTIONS), "project", words=words))
    random.shuffle(found)
    own = random.choice((0, 1, 0.5))
    return [replace(rule, own=random.random() < own) for rule in found]


def json_document(random: Random) -> str:
    """An object of strings, lists and numbers, letters escaped by chance; now and then a secret number."""

    def value(depth: int) -> object:
        kind = random.random()
        if kind < 0.6 or depth > 2:
            return document(random)
        if kind < 0.75:
            return [value(depth + 1) for _ in range(random.randint(0, 3))]
        if kind < 0.9:
            return {random.choice(NAMES): value(depth + 1) for _ in range(random.randint(0, 3))}
        return random.choice(
            (1764000000000, 12, None, True, 4111111111111111 if random.random() < 0.1 else 0.5)
        )

    found = {name: value(0) for name in random.sample(NAMES, random.randint(1, 3))}
    text = json.dumps(found, ensure_ascii=random.random() < 0.5, indent=random.choice((None, 1)))
    if random.random() < 0.8:
        return text

    def escaped(found: re.Match[str]) -> str:
        letter = found.group()
        return f"\\u{ord(letter):04x}" if len(letter) == 1 and random.random() < ESCAPED else letter

    return STRING.sub(lambda string: LETTER.sub(escaped, string.group()), text)


def cuts(random: Random, text: str) -> list[str]:
    """The text in pieces: of one code point, of a few, or of any length."""
    size = random.choice((1, 3, 8, 200))
    pieces: list[str] = []
    at = 0
    while at < len(text):
        step = random.randint(0, size) if size > 1 else 1
        pieces.append(text[at : at + step])
        at += step
    return pieces
