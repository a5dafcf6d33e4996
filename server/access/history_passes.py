"""History passes, by which a page of another site reads one user's conversations for a while, and renames and
deletes them where it was minted to write. Pure.

Sealed content like a ticket's. A pass opens no connection, sends no turn, and makes no other proof.
"""

import msgspec

from core.signing.sealed import SealedContent

PURPOSE = b"parley history v1"
PREFIX = "ph_"
LIFETIME_SECONDS = 600
WRITE_SCOPE = "history:write"
"""The only scope that a pass's caller may have. No key has it."""


class HistoryPass(msgspec.Struct, frozen=True, array_like=True):
    """Content of a pass. `session`: the browser session that asked for it. `ends_ms` is Unix ms."""

    tenant: str
    key: str
    session: str
    user: str
    ends_ms: int
    writes: bool = False


_passes = SealedContent(HistoryPass, PURPOSE, lambda found: found.ends_ms, PREFIX)
seal, unseal = _passes.seal, _passes.unseal
