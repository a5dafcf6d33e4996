"""Resume tokens: signed, opaque, bound to tenant, owner and session, without offsets inside. Pure."""

import base64
import hashlib
import hmac

import msgspec

PURPOSE = b"parley resume v1"


class ResumeToken(msgspec.Struct, frozen=True, array_like=True):
    """`number` rises with every welcome; `expires_ms` is Unix ms."""

    session: str
    tenant: str
    owner: str
    number: int
    expires_ms: int


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ResumeToken)


def seal(token: ResumeToken, secret: bytes) -> str:
    """The token as the client gets it."""
    body = _encoder.encode(token)
    return f"{_text(body)}.{_text(_signature(body, secret))}"


def unseal(text: str, secret: bytes, now_ms: int) -> ResumeToken | None:
    """The token in a text; None for a forged, damaged or expired one."""
    body_text, _, signature = text.partition(".")
    try:
        body = _bytes(body_text)
        if not hmac.compare_digest(_signature(body, secret), _bytes(signature)):
            return None
        token = _decoder.decode(body)
    except (ValueError, msgspec.MsgspecError):
        return None
    return token if token.expires_ms > now_ms else None


def _signature(body: bytes, secret: bytes) -> bytes:
    return hmac.digest(hashlib.sha256(PURPOSE + secret).digest(), body, "sha256")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
