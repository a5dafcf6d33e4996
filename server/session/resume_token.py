"""Resume tokens: signed, opaque, bound to tenant, owner and session, without offsets inside. Pure."""

import msgspec

from core.signing import signed_text
from core.signing.signed_text import Keyring

PURPOSE = b"parley resume v1"


class ResumeToken(msgspec.Struct, frozen=True, array_like=True):
    """Content of a token. `number` rises with every welcome; `expires_ms` is Unix ms."""

    session: str
    tenant: str
    owner: str
    number: int
    expires_ms: int


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ResumeToken)


def seal(token: ResumeToken, keyring: Keyring) -> str:
    """The token as the client gets it."""
    return signed_text.seal(_encoder.encode(token), PURPOSE, keyring)


def unseal(text: str, keyring: Keyring, now_ms: int) -> ResumeToken | None:
    """The token in a text; None for a forged, damaged or expired one."""
    body = signed_text.unseal(text, PURPOSE, keyring)
    token = _decoder.decode(body) if body is not None else None
    return token if token is not None and token.expires_ms > now_ms else None
