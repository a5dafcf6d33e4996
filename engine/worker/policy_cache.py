"""The safety policies that one worker has compiled: the built-in ones, and the last used of others. Pure.

An answer keeps its own while it runs, whatever is dropped here.
"""

from collections import OrderedDict

from engine.safety.policy import BuiltInPolicies, CompiledPolicy

BYTES_MAX = 512 << 20


class PolicyCache:
    """Policies by their hash, within a bound in bytes, as each says its size."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._built_in = BuiltInPolicies()
        self._kept: OrderedDict[str, CompiledPolicy] = OrderedDict()
        self._bytes_max = bytes_max
        self.bytes = 0

    def compiled(self, hash: str) -> CompiledPolicy:
        """Raises UnknownPolicyError where it has to be loaded."""
        found = self._kept.get(hash)
        if found is None:
            return self._built_in.compiled(hash)
        self._kept.move_to_end(hash)
        return found

    def keep(self, hash: str, policy: CompiledPolicy) -> None:
        """Keep a policy; those that were not used for longest make room."""
        self.drop(hash)
        self._kept[hash] = policy
        self.bytes += policy.size
        while self.bytes > self._bytes_max and len(self._kept) > 1:
            self.drop(next(iter(self._kept)))

    def drop(self, hash: str) -> None:
        """Forget a policy."""
        if (found := self._kept.pop(hash, None)) is not None:
            self.bytes -= found.size
