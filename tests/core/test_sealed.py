"""Sealed content: one kind is never another, nothing outlives its end, and no text breaks who opens it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.signing import signed_text
from core.signing.sealed import SealedContent
from core.signing.signed_text import Keyring

KEYRING = Keyring(b"k" * 32)


class Pass(msgspec.Struct, frozen=True, array_like=True):
    """Something that ends."""

    name: str
    ends_ms: int


KIND = SealedContent(Pass, b"a test's v1", lambda found: found.ends_ms, "pp_")
OTHER = SealedContent(Pass, b"a test's v2", lambda found: found.ends_ms, "pp_")
ANN = Pass("ann", 1_000)


def test_what_was_sealed_is_read_until_its_end():
    text = KIND.seal(ANN, KEYRING)
    assert text.startswith("pp_")
    assert KIND.unseal(text, KEYRING, 999) == ANN
    assert KIND.unseal(text, KEYRING, 1_000) is None


def test_one_kind_is_no_other_and_another_secret_none():
    text = KIND.seal(ANN, KEYRING)
    assert OTHER.unseal(text, KEYRING, 0) is None
    assert KIND.unseal(text.removeprefix("pp_"), KEYRING, 0) is None
    assert KIND.unseal(text, Keyring(b"x" * 32), 0) is None
    assert KIND.unseal(text, Keyring(b"x" * 32, b"k" * 32), 0) == ANN


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", msgspec.msgpack.encode(["ann"]), msgspec.msgpack.encode({"a": 1})]
)
def test_what_another_release_sealed_in_another_shape_is_not_opened(body: bytes):
    """It is answered like a forged one, not like a fault of ours."""
    assert KIND.unseal("pp_" + signed_text.seal(body, b"a test's v1", KEYRING), KEYRING, 0) is None


@given(st.text())
def test_no_text_breaks_who_opens_it(text: str):
    assert KIND.unseal(text, KEYRING, 0) is None
    assert KIND.unseal(f"pp_{text}", KEYRING, 0) is None
