"""The safety policies that one worker has compiled: the built-in ones, and the last used of others. Pure.

An answer keeps its own while it runs, whatever is dropped here.
"""

from collections import OrderedDict

from engine.safety.policy import BuiltInPolicies, CompiledPolicy

BYTES_MAX = 512 << 20
BASE_BYTES = 1_500_000  # measured, of one small policy: what RE2 makes of the built-in detectors
DOCUMENT_FACTOR = 128  # bytes of a compiled policy by bytes of its document


def compiled_bytes(document: bytes) -> int:
    """About how much memory a policy takes, once compiled."""
    return BASE_BYTES + DOCUMENT_FACTOR * len(document)


class PolicyCache:
    """Policies by their hash."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._built_in = BuiltInPolicies()
        self._kept: OrderedDict[str, tuple[CompiledPolicy, int]] = OrderedDict()
        self._bytes_max = bytes_max
        self.bytes = 0

    def compiled(self, hash: str) -> CompiledPolicy:
        """Raises UnknownPolicyError where it has to be loaded."""
        found = self._kept.get(hash)
        if found is None:
            return self._built_in.compiled(hash)
        self._kept.move_to_end(hash)
        return found[0]

    def keep(self, hash: str, policy: CompiledPolicy, bytes: int) -> None:
        """Keep a policy; those that were not used for longest make room."""
        self.drop(hash)
        self._kept[hash] = (policy, bytes)
        self.bytes += bytes
        while self.bytes > self._bytes_max and len(self._kept) > 1:
            self.drop(next(iter(self._kept)))

    def drop(self, hash: str) -> None:
        """Forget a policy."""
        if (found := self._kept.pop(hash, None)) is not None:
            self.bytes -= found[1]
