"""Codes of a second factor (TOTP, RFC 6238), each taken once. Pure but for making secrets."""

import base64
import hmac
import secrets
from typing import TYPE_CHECKING

from core.signing.hidden_bytes import hide_bytes, reveal_bytes
from core.signing.signed_text import Keyring

if TYPE_CHECKING:
    from pyotp.totp import TOTP

SECRET_BYTES = 20
STEP_SECONDS = 30
STEPS_BESIDE = 1  # clocks of telephones differ
ISSUER = "Parley"
PURPOSE = b"parley person totp v1 "


def new_secret() -> str:
    """A new secret, in base32 as apps take it."""
    return base64.b32encode(secrets.token_bytes(SECRET_BYTES)).decode()


def secret_uri(secret: str, name: str) -> str:
    """What an app reads from a QR code."""
    return _totp(secret).provisioning_uri(name=name, issuer_name=ISSUER)


def matching_step(secret: str, code: str, now_ms: int, last_step: int) -> int | None:
    """The time step of a right code; None for a wrong one, and for one at or before the last step that was
    taken: nobody uses it again."""
    now_step, totp = now_ms // 1000 // STEP_SECONDS, _totp(secret)
    steps = range(now_step - STEPS_BESIDE, now_step + STEPS_BESIDE + 1)
    shown = code.replace(" ", "").encode()
    good = [step for step in steps if hmac.compare_digest(totp.at(step * STEP_SECONDS).encode(), shown)]
    return next((step for step in good if step > last_step), None)


def hide_secret(secret: str, person_id: str, keyring: Keyring) -> str:
    """The form in which a person's secret is stored, which is good in their row alone."""
    return hide_bytes(base64.b32decode(secret), PURPOSE + person_id.encode(), keyring)


def hidden_anew(hidden: str, person_id: str, keyring: Keyring) -> str | None:
    """A secret that the installation's previous secret hid, hidden under the present one; None where it is
    already, or nobody can read it."""
    if reveal_secret(hidden, person_id, Keyring(keyring.current)) is not None:
        return None
    secret = reveal_secret(hidden, person_id, keyring)
    return None if secret is None else hide_secret(secret, person_id, keyring)


def reveal_secret(hidden: str, person_id: str, keyring: Keyring) -> str | None:
    """The secret; None where neither the present nor the previous secret of the installation hid it."""
    data = reveal_bytes(hidden, PURPOSE + person_id.encode(), keyring)
    return None if data is None else base64.b32encode(data).decode()


def _totp(secret: str) -> "TOTP":
    """Processes that sign nobody in do without the library."""
    from pyotp.totp import TOTP

    return TOTP(secret)
