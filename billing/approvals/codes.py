"""One-time codes of proposals: 128 bits, valid for one proposal as it stands. Pure but for randomness."""

import base64
import hmac
import re
import secrets

import msgspec

from billing.tables.approvals import Proposal
from core.signing.signed_text import Keyring, mac

PURPOSE = b"parley proposal code v1"
CODE_BYTES = 16
GROUP = 4
LETTERS = re.compile(r"[A-Z2-7]{26}", re.ASCII)


def new_code() -> str:
    """Make a code in the form that a person reads: `ABCD-EFGH-…`."""
    letters = base64.b32encode(secrets.token_bytes(CODE_BYTES)).decode().rstrip("=")
    return "-".join(letters[at : at + GROUP] for at in range(0, len(letters), GROUP))


def code_hash(code: str, proposal: Proposal, keyring: Keyring) -> str:
    """HMAC over a code and its proposal, stored in place of the code. It is good for no other proposal nor
    for a changed one, and nobody can make one without the installation's secret."""
    return mac(_body(code, proposal), keyring.key(PURPOSE)).hex()


def _body(code: str, proposal: Proposal) -> bytes:
    facts = (
        "parley proposal",
        _letters(code),
        proposal.tenant_id,
        proposal.id,
        proposal.kind,
        proposal.move,
        proposal.amount_nano,
        proposal.author,
        proposal.second,
        proposal.expires_ms,
    )
    return msgspec.msgpack.encode(facts)


def is_code_of(code: str, proposal: Proposal, keyring: Keyring) -> bool:
    """Check a code in constant time; dashes and case do not matter."""
    body, kept = _body(code, proposal), proposal.code_sha256.encode()
    right = [hmac.compare_digest(mac(body, key).hex().encode(), kept) for key in keyring.keys(PURPOSE)]
    return any(right) and LETTERS.fullmatch(_letters(code)) is not None


def _letters(code: str) -> str:
    return code.replace("-", "").replace(" ", "").strip().upper()
