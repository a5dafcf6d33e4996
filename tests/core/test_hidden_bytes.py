"""Hidden bytes come back under the installation's secret, for what they were hidden, and else not at all."""

from core.signing.hidden_bytes import hide_bytes, reveal_bytes
from core.signing.signed_text import Keyring

OURS, THEIRS = Keyring(b"o" * 32), Keyring(b"t" * 32)
PURPOSE = b"tests v1"


def test_bytes_come_back_to_who_hid_them() -> None:
    """Also under the secret before, while it is being changed; not for another purpose or installation."""
    for data in (b"", b"twenty bytes of them", bytes(32)):
        text = hide_bytes(data, PURPOSE, OURS)
        assert reveal_bytes(text, PURPOSE, OURS) == data
        assert reveal_bytes(text, PURPOSE, Keyring(b"n" * 32, OURS.current)) == data
        assert reveal_bytes(text, b"tests v2", OURS) is None
        assert reveal_bytes(text, PURPOSE, THEIRS) is None


def test_what_was_changed_is_refused() -> None:
    """Each character of the text counts; another hiding of the same bytes is another text."""
    text = hide_bytes(b"twenty bytes of them", PURPOSE, OURS)
    assert text != hide_bytes(b"twenty bytes of them", PURPOSE, OURS)
    for at in range(0, len(text) - 4, 3):
        changed = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]
        assert reveal_bytes(changed, PURPOSE, OURS) is None
    for broken in ("", "no base64 ü", text[:10]):
        assert reveal_bytes(broken, PURPOSE, OURS) is None
