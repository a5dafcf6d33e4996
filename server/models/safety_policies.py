"""The safety policy that a project's sends are under: what holds of the levels' documents, merged.

Looked up in SQL, kept some seconds, dropped at news of a changed one. What cannot be looked up lets no send
through.
"""

from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property

from core.clock import now_ms
from core.errors import Refused
from core.observability.error_facts import error_summary
from core.observability.telemetry import RepeatedWarning, logger
from core.sql.database import Database
from engine.api import (
    BUILT_IN_POLICIES,
    PinnedPolicy,
    PolicyDocument,
    PolicyError,
    PolicyStore,
    pinned_policy,
)
from server.protocol.codes import ErrorCode, refusal

KEPT_MS = 5_000
KEPT_BYTES_MAX = 64 << 20
PROJECT_BYTES = 512  # of one that is kept, beside its document

repeated = RepeatedWarning(logger(__name__))


@dataclass(frozen=True)
class ProjectPolicy:
    """What holds for a project: the document, and its bytes with their hash."""

    document: PolicyDocument
    pinned: PinnedPolicy

    @property
    def hash(self) -> str:
        """Hash of the document."""
        return self.pinned.hash

    @property
    def in_pool(self) -> PinnedPolicy | None:
        """What has to stand in the pool; None where every worker has it."""
        return None if self.hash in BUILT_IN_POLICIES else self.pinned

    @cached_property
    def has_prompt_rules(self) -> bool:
        """True where anything is looked for in prompts."""
        return any(entry.prompt for entry in self.document.entries())


@dataclass(frozen=True)
class _Kept:
    policy: ProjectPolicy
    read_ms: int

    @property
    def bytes(self) -> int:
        return len(self.policy.pinned.document) + PROJECT_BYTES


class SafetyPolicies:
    """One gateway's cache of projects' policies."""

    def __init__(self, db: Database) -> None:
        self._store = PolicyStore(db)
        self.changed()

    async def of(self, tenant: str, project: str) -> ProjectPolicy:
        """The policy of a project, as of some seconds ago at most. Raises Refused where a stored document is
        damaged."""
        now, kept = now_ms(), self._kept  # news replace it: a look-up begun before them fills the old one
        known = kept.get((tenant, project))
        if known is not None and 0 <= now - known.read_ms < KEPT_MS:
            return known.policy
        try:
            document = await self._store.applies(tenant, project)
        except PolicyError as error:
            problem = "the safety policy of this project cannot be read"
            repeated.warning(
                "policies.unreadable", tenant=tenant, project=project, error=error_summary(error)
            )
            raise Refused(refusal(ErrorCode.INTERNAL, problem)) from error
        policy = ProjectPolicy(document, pinned_policy(document))
        self._keep(kept, (tenant, project), _Kept(policy, now))
        return policy

    def changed(self) -> None:
        """Forget everything, as a policy was changed."""
        self._kept = OrderedDict[tuple[str, str], _Kept]()
        self._bytes = 0

    def _keep(self, kept: OrderedDict[tuple[str, str], _Kept], name: tuple[str, str], found: _Kept) -> None:
        if kept is not self._kept:
            return
        if (before := kept.pop(name, None)) is not None:
            self._bytes -= before.bytes
        kept[name] = found
        self._bytes += found.bytes
        while self._bytes > KEPT_BYTES_MAX and len(kept) > 1:
            self._bytes -= kept.popitem(last=False)[1].bytes
