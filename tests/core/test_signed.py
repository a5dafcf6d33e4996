"""Signed texts: ours open for their purpose only, and nothing else opens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.signing import signed_text
from core.signing.signed_text import Keyring

SECRET, PURPOSE = Keyring(b"secret"), b"cookie"


@given(st.binary(max_size=200))
def test_what_was_sealed_opens(body: bytes):
    """Any body comes back as it was."""
    assert signed_text.unseal(signed_text.seal(body, PURPOSE, SECRET), PURPOSE, SECRET) == body


def test_another_purpose_or_secret_does_not_open_it():
    """A sign-in cookie is no resume token, and another installation's is nobody's."""
    text = signed_text.seal(b"x", PURPOSE, SECRET)
    assert signed_text.unseal(text, b"resume", SECRET) is None
    assert signed_text.unseal(text, PURPOSE, Keyring(b"other")) is None


def test_the_secret_before_opens_and_seals_nothing_new():
    """While a secret is changed: what is out stays good, what is new is sealed by the new one."""
    old, new = Keyring(b"old"), Keyring(b"new")
    both = Keyring(b"new", previous=b"old")
    assert signed_text.unseal(signed_text.seal(b"x", PURPOSE, old), PURPOSE, both) == b"x"
    assert signed_text.unseal(signed_text.seal(b"x", PURPOSE, both), PURPOSE, new) == b"x"
    assert signed_text.unseal(signed_text.seal(b"x", PURPOSE, both), PURPOSE, old) is None
    assert signed_text.unseal(signed_text.seal(b"x", PURPOSE, old), PURPOSE, new) is None


def test_what_opens_and_what_does_not_is_compared_alike(monkeypatch: pytest.MonkeyPatch):
    """In constant time, with every secret that opens, whichever sealed it: the time tells nothing."""
    compared: list[tuple[int, int]] = []
    compare = signed_text.hmac.compare_digest

    def counted(made: bytes, shown: bytes) -> bool:
        compared.append((len(made), len(shown)))
        return compare(made, shown)

    monkeypatch.setattr(signed_text.hmac, "compare_digest", counted)
    both = Keyring(b"new", previous=b"old")
    for secret in (b"new", b"old", b"guessed"):
        compared.clear()
        signed_text.unseal(signed_text.seal(b"x", PURPOSE, Keyring(secret)), PURPOSE, both)
        assert compared == [(32, 32)] * 2, secret


def test_a_text_of_another_release_opens():
    """What 0.1.0 sealed."""
    text = "eA.QWzI6VwXTUScwZJWJu5JVgo9QNo_vTBm8ni9TTkLICk"
    assert signed_text.unseal(text, PURPOSE, SECRET) == b"x"


@pytest.mark.parametrize("text", ["", ".", "a", "a.b", "eA.", ".eA", "ü.ü", "eA.eA.eA", "\0"])
def test_garbage_does_not_open(text: str):
    """Nor does it raise."""
    assert signed_text.unseal(text, PURPOSE, SECRET) is None


def test_one_text_has_one_alphabet():
    """The other base64's signs for the same bits are no good."""
    text = signed_text.seal(b"\xff\xfe\xfb" * 20, PURPOSE, SECRET)
    assert "_" in text
    for ours, other in (("_", "/"), ("-", "+")):
        assert ours not in text or signed_text.unseal(text.replace(ours, other), PURPOSE, SECRET) is None


@given(st.data())
def test_one_changed_character_spoils_it(data: st.DataObject):
    """Any character but the last of a part, whose lowest bits carry nothing, changed into any other."""
    text = signed_text.seal(b"a body of some length", PURPOSE, SECRET)
    at = data.draw(st.integers(0, len(text) - 2).filter(lambda at: text[at + 1] != "."))
    character = data.draw(st.characters(codec="utf-8").filter(lambda other: other != text[at]))
    assert signed_text.unseal(text[:at] + character + text[at + 1 :], PURPOSE, SECRET) is None


def test_a_short_seal_is_of_its_body_key_and_whole():
    """Under any key of the ring; nothing shorter, longer or empty passes for it."""
    old, new = Keyring(b"old"), Keyring(b"new", previous=b"old")
    seal = signed_text.short_seal(b"body", old.key(PURPOSE))
    assert len(seal) == signed_text.SEAL_BYTES
    assert signed_text.is_sealed(b"body", seal, new.keys(PURPOSE))
    assert not signed_text.is_sealed(b"bodies", seal, new.keys(PURPOSE))
    assert not signed_text.is_sealed(b"body", seal, Keyring(b"new").keys(PURPOSE))
    assert not signed_text.is_sealed(b"body", seal, new.keys(b"resume"))
    for other in (b"", seal[:-1], seal + b"\0", signed_text.mac(b"body", old.key(PURPOSE))):
        assert not signed_text.is_sealed(b"body", other, new.keys(PURPOSE))
