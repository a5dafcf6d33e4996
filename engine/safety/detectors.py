"""What a policy can look for: each detector's patterns. Pure.

A published version never changes, since a policy's hash stands for what it did: a better pattern is a new
version (tests/engine/safety/test_detectors.py holds the digests).

Patterns that begin with fixed letters have no `\\b` before them: a key is one in `_AKIA…` too, or glued to
another. What has a check digit is checked.
"""

from typing import NamedTuple


class DetectorPattern(NamedTuple):
    """One pattern of a detector; the fields are those of a `Rule` (engine/safety/scanner.py)."""

    pattern: str
    check: str = ""
    tail: bool = False
    joins: bool = False
    not_behind: str = ""


class Detector(NamedTuple):
    """Its matches' `category`, and its patterns."""

    category: str
    patterns: tuple[DetectorPattern, ...]


_LETTERS = "[A-Za-z0-9]"
_WORD = "[A-Za-z0-9_-]"
_LABEL = "secret[ _-]?(?:access[ _-]?)?key"

_API_KEYS = (
    # Amazon: access keys, and secret keys behind their label
    DetectorPattern("(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"),
    DetectorPattern(
        rf"(?i:{_LABEL})(?:[^A-Za-z0-9/+]{{1,24}}|[ \t]{{0,4}}\[None\]: )(?P<part>[A-Za-z0-9/+]{{40}})",
        "digit",
    ),
    # Google: API keys, OAuth client secrets and access tokens
    DetectorPattern(f"AIza{_WORD}{{35}}"),
    DetectorPattern(f"GOCSPX-{_WORD}{{28}}"),
    DetectorPattern(f"ya29\\.{_WORD}{{20,250}}", "digit"),
    # Azure storage
    DetectorPattern("(?i:AccountKey)[^A-Za-z0-9/+]{1,6}(?P<part>[A-Za-z0-9+/]{86}==)"),
    # GitHub, GitLab
    DetectorPattern(f"gh[pousr]_{_LETTERS}{{36,200}}"),
    DetectorPattern(f"github_pat_{_LETTERS}{{22}}_{_LETTERS}{{59}}"),
    DetectorPattern(f"gl(?:pat|dt|rt|cbt|ptt|soat)-{_WORD}{{20,64}}"),
    # OpenAI, Anthropic, Hugging Face, and Parley itself
    DetectorPattern(f"sk-{_LETTERS}{{20}}T3BlbkFJ{_LETTERS}{{20}}"),
    DetectorPattern(f"sk-(?:proj|svcacct|admin|ant-[a-z]{{2,8}}[0-9]{{2}})-{_WORD}{{20,200}}", "digit"),
    DetectorPattern(f"hf_{_LETTERS}{{34}}"),
    DetectorPattern("pk_[0-9a-f]{12}_[0-9a-f]{48}"),
    # Slack: tokens, web hooks
    DetectorPattern(f"xox[abceoprs]-{_LETTERS}[A-Za-z0-9-]{{10,200}}", "digit"),
    DetectorPattern(f"xapp-[0-9]-{_LETTERS}{{8,20}}-[0-9]{{8,20}}-[a-f0-9]{{32,80}}"),
    DetectorPattern(
        f"hooks\\.slack\\.com/services/(?P<part>T{_LETTERS}{{7,12}}/B{_LETTERS}{{7,12}}/{_LETTERS}{{20,30}})"
    ),
    # Stripe, Shopify, Twilio, SendGrid
    DetectorPattern(f"[sr]k_(?:live|test)_{_LETTERS}{{16,200}}"),
    DetectorPattern(f"whsec_{_LETTERS}{{32,64}}"),
    DetectorPattern("shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    DetectorPattern(r"\bSK[0-9a-f]{32}\b"),
    DetectorPattern(f"SG\\.{_WORD}{{22}}\\.{_WORD}{{43}}"),
    # npm, PyPI, DigitalOcean, Databricks, Telegram bots
    DetectorPattern(f"npm_{_LETTERS}{{36}}"),
    DetectorPattern(f"pypi-AgE[A-Za-z0-9]{{8,16}}{_WORD}{{50,230}}"),
    DetectorPattern("do[oprt]_v1_[a-f0-9]{64}"),
    DetectorPattern(r"\bdapi[a-f0-9]{32}\b"),
    DetectorPattern(f"(?:bot|\\b)[0-9]{{8,10}}:AA{_WORD}{{33}}"),
)
_PRIVATE_KEYS = (
    DetectorPattern("-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----", tail=True),
    DetectorPattern("-----END [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----", joins=True),
)
_GAP = r"[ \u00a0\u202f\u2011.-]?"  # between groups of digits
_CARDS = (
    DetectorPattern(
        rf"\b(?:[2-6][0-9]{{3}}(?:{_GAP}[0-9]{{4}}){{3}}(?:{_GAP}[0-9]{{1,3}})?"
        rf"|3[0-9]{{3}}{_GAP}[0-9]{{6}}{_GAP}[0-9]{{4,5}}|3[0-9]{{3}}(?:{_GAP}[0-9]{{4}}){{2}}{_GAP}[0-9]{{2,3}})\b",
        "card",
        not_behind=".",  # 0.4276844298184532
    ),
)
_IBANS = (DetectorPattern(r"\b[A-Z]{2}[0-9]{2}(?:[ \u00a0\u202f\u2011-]?[A-Z0-9]){11,30}\b", "iban"),)
_EMAILS = (
    DetectorPattern(
        r"\b(?P<part>[A-Za-z0-9](?:[A-Za-z0-9._%+-]{0,40})@(?:[A-Za-z0-9][A-Za-z0-9-]{0,40}\.){1,4}[A-Za-z]{2,18}\b)"
        r"(?::[A-Za-z0-9_.~-]{0,22}(?:/|\.git\b)|/)?",  # a remote's path, by which it is no address
        "address",
    ),
)
_PHONES = (
    DetectorPattern(r"\+[1-9](?:[ .()/-]{0,2}[0-9]){7,14}\b"),
    DetectorPattern(r"\b[2-9][0-9]{2}[.-][2-9][0-9]{2}[.-][0-9]{4}\b"),
    DetectorPattern(r"\([2-9][0-9]{2}\) ?[2-9][0-9]{2}[.-][0-9]{4}\b"),
)

DETECTORS: dict[tuple[str, int], Detector] = {
    ("api_key", 1): Detector("api_key", _API_KEYS),
    ("private_key", 1): Detector("private_key", _PRIVATE_KEYS),
    ("card", 1): Detector("card", _CARDS),
    ("iban", 1): Detector("iban", _IBANS),
    ("email", 1): Detector("email", _EMAILS),
    ("phone", 1): Detector("phone", _PHONES),
}
CATEGORIES = frozenset(detector.category for detector in DETECTORS.values())
