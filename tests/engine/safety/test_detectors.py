"""What the default policy takes for a secret, and what it leaves alone."""

import hashlib
from random import Random

import pytest

from engine.safety.detectors import DETECTORS
from engine.safety.filter import Filter
from tests.engine.safety.filters import DEFAULT, filtered, flags

KEY = "[API_KEY_1]"
RUN = "MIIEvQIBADANBgkqhkiG9w0BAQEF"
# Digests of the published versions: a change of one changes what answers under old hashes become.
PUBLISHED = {
    ("api_key", 1): "b82d03320f6448da",
    ("private_key", 1): "cf22e5cc4103aa21",
    ("card", 1): "fbfd2c50a17c25fa",
    ("iban", 1): "88185e5ceda3b637",
    ("email", 1): "7319d0ee0d7d6aea",
    ("phone", 1): "a885a9004c8be08f",
}


def test_a_published_version_never_changes():
    """A better pattern is a new version of its detector."""
    assert {
        key: hashlib.sha256(repr(found).encode()).hexdigest()[:16] for key, found in DETECTORS.items()
    } == PUBLISHED


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("AKIAIOSFODNN7EXAMPLE", KEY),
        ("xAKIAIOSFODNN7EXAMPLE", f"x{KEY}"),  # glued to a word
        (
            'aws_secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEK1Y"',
            f'aws_secret_access_key = "{KEY}"',
        ),
        ("SecretAccessKey: wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEK1Y.", f"SecretAccessKey: {KEY}."),
        ("sk-proj-abcDEF123456abcDEF123456", KEY),
        ("ghp_" + "aB3d" * 9 + ".", f"{KEY}."),
        ("github_pat_" + "a" * 22 + "_" + "b" * 59, KEY),
        ("AIza" + "Sy_-1" * 7, KEY),
        ("sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc", KEY),
        ("xoxb-2345678901-abcdefGHIJ", KEY),
        ("pk_0123456789ab_" + "0f" * 24, KEY),  # Parley's own
        ("4111 1111 1111 1111 2", "[CARD_1] 2"),
        ("4111-1111-1111-1111 and 4111111111111111", "[CARD_1] and [CARD_1]"),
        ("4111 1111 1111 1111, 5555 5555 5555 4444", "[CARD_1], [CARD_2]"),
        ("3782 822463 10005", "[CARD_1]"),
        ("DE89 3704 0044 0532 0130 00 IS MY IBAN", "[IBAN_1] IS MY IBAN"),
        ("GB82WEST12345698765432", "[IBAN_1]"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nThen", "[PRIVATE_KEY_1]\nThen"),
        ("-----BEGIN PRIVATE KEY-----\n  MIIE\n\tabc= and", "[PRIVATE_KEY_1] and"),
        ('"-----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY-----\\n"', '"[PRIVATE_KEY_1]\\n"'),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII", "[PRIVATE_KEY_1]"),
        (f"-----BEGIN PRIVATE KEY----- {RUN} {RUN} -----END PRIVATE KEY----- on", "[PRIVATE_KEY_1] on"),
        (f'"-----BEGIN PRIVATE KEY-----\\n" +\n  "{RUN}\\n" +\n  "{RUN}\\n";', '"[PRIVATE_KEY_1]'),
        (f"'-----BEGIN PRIVATE KEY-----'\n '{RUN}'\n '-----END PRIVATE KEY-----'", "'[PRIVATE_KEY_1]'"),
        (f"> -----BEGIN PRIVATE KEY-----\n> {RUN} \n> {RUN}\n\nok", "> [PRIVATE_KEY_1]"),
        (f"1 | -----BEGIN PRIVATE KEY-----\n2 | {RUN}\n3 | -----END PRIVATE KEY-----", "1 | [PRIVATE_KEY_1]"),
        (
            f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nX-Y: <z@z.de> !\n\n{RUN}",
            "[PRIVATE_KEY_1]",
        ),
        (f"-----BEGIN PGP PRIVATE KEY BLOCK-----\nComment: {'long, and ' * 9}\n\n{RUN}", "[PRIVATE_KEY_1]"),
        (
            "A file has -----BEGIN PRIVATE KEY----- and then letters",
            "A file has [PRIVATE_KEY_1] then letters",
        ),
        (
            "aws_secret_access_key [None]: wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEK1+",
            f"aws_secret_access_key [None]: {KEY}",
        ),
        ("Secret Access Key:\n   wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEK1Y", f"Secret Access Key:\n   {KEY}"),
        (
            "environ['AWS_SECRET_ACCESS_KEY'] = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEK1Y'",
            f"environ['AWS_SECRET_ACCESS_KEY'] = '{KEY}'",
        ),
        ("/bot123456789:AA" + "aB3" * 11 + "/x", f"/{KEY}/x"),
        ("4111\u202f1111\u202f1111\u202f1111, 4111.1111.1111.1111", "[CARD_1], [CARD_1]"),
        ("3782 8224 6310 005", "[CARD_1]"),
    ],
)
def test_secrets_are_replaced(text: str, becomes: str):
    """Whole, glued to other text, in every usual writing; equal ones by the same number."""
    assert filtered(text) == becomes


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1112",  # wrong check digit
        "1764000000000 ms, 1764000000000000 us",
        "DE89 3704 0044 0532 0130 01",
        "XX89 3704 0044 0532 0130 00",
        '{"score": 0.4276844298184532}',
        "disk-admin-tools-for-everybody-here",  # no digit
        "sk-folding-cube-container",
        "550e8400-e29b-41d4-a716-446655440000",
        "-----BEGIN CERTIFICATE-----\nMIIE",
        "-----BEGIN PUBLIC KEY-----",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "The key takeaways: use 16 digits, 4 groups.",
    ],
)
def test_what_only_looks_like_a_secret_is_left_alone(text: str):
    """Wrong check digits, times, hashes, identifiers, public keys."""
    assert filtered(text) == text


def test_few_random_numbers_are_cards():
    """Of random numbers of 16 digits about one in twenty-five has an issuer and a right check digit."""
    random = Random(4)
    numbers = [f"{random.randint(10**15, 10**16 - 1)}" for _ in range(2_000)]
    found = Filter(DEFAULT)
    found.feed(" ".join(numbers), final=True)
    assert found.counts["card", "redact"] < 120


def flagged(text: str) -> list[str]:
    """What the default policy flags of a whole text."""
    return [text[flag.p : flag.p + flag.n] for flag in flags(Filter(DEFAULT).feed(text, final=True))]


@pytest.mark.parametrize(
    "text",
    [
        "see img@2x.png, logo@3x.min.svg",
        "icon@1.5x.webp",
        "git clone git@github.com:org/repo",
        "git@gitlab.example.com:group/sub/repo.git",
        "git@gist.github.com:0123abc.git",
        "ssh://git@github.com/org/repo",
        "scp a.txt deploy@server.example.com:/var/www",
        "rsync x me@host.example.com:~/x",
    ],
)
def test_files_and_remotes_are_no_addresses(text: str):
    """Pictures for dense screens, a repository's or a machine's place."""
    assert flagged(text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("git@vger.kernel.org has the list", "git@vger.kernel.org"),
        ("bob@example.com: hello", "bob@example.com"),
        ("bob@example.com:hunter2/x", "bob@example.com"),
        ("bob@example.com/eve@example.com", "bob@example.com"),
        ("b@2x.com", "b@2x.com"),
        ("o'neil.b+tag@mail.example.co.uk.", "neil.b+tag@mail.example.co.uk"),
        ("<bob@example.museum>", "bob@example.museum"),
        ("bob@png.example.com", "bob@png.example.com"),
    ],
)
def test_real_addresses_are_flagged(text: str, found: str):
    """Before a colon, a password, another address; what stands behind is no part of them."""
    assert flagged(text)[0] == found


def test_addresses_and_phones_are_flagged_and_stay():
    """Once a category, where they stand; nothing of them is held back."""
    text = "Write to bob@example.com, eve@example.com or call +49 170 1234567."
    filter = Filter(DEFAULT)
    out = filter.feed(text)
    assert out[0] == text
    found = flags([*out, *filter.feed("", final=True)])
    assert [(flag.category, flag.p, flag.n) for flag in found] == [("email", 9, 15), ("phone", 50, 15)]
    assert filter.counts == {("email", "flag"): 1, ("phone", "flag"): 1}
