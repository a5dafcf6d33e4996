"""Of which kind a key or a channel of Redis is, as `core/access/processes.py` names them."""

import re

from core.access import processes

KINDS = {
    kind
    for process in processes.PROCESSES
    for kinds in (process.reads, process.writes, process.listens)
    for kind in kinds
}
_TAG = re.compile(r"^\{([pti]):[^}]*\}")
_INSTALLATION = "parley:"


def kind_of(key: str) -> str:
    """As docs/redis.md lists it; the key itself where it is of none."""
    named = _TAG.sub(lambda found: f"{found[1].upper()}:", key)
    if key.startswith(_INSTALLATION):
        own = f"I:{key.removeprefix(_INSTALLATION)}"
        named = own if any(_is_of(own, kind) for kind in KINDS) else named
    return max((kind for kind in KINDS if _is_of(named, kind)), key=len, default=key)


def _is_of(named: str, kind: str) -> bool:
    return named.startswith(kind) if kind.endswith(":") else named == kind
