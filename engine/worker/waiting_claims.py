"""Claims that wait until this worker has loaded the safety policy that their answers are under. Pure.

They take room like any answer, and are nothing to the engine and to the log yet.
"""

import msgspec

from engine.queue.types import Claim
from engine.request import TOKEN_BYTES, Control, RequestInput
from engine.scheduling.capacity import AnswerLoad


class MissingPolicyError(Exception):
    """A claim whose request is under a policy that is not known here yet. The message has its hash."""

    def __init__(self, request: RequestInput) -> None:
        super().__init__(request.policy)
        self.request = request


class WaitingClaims:
    """The claims of one worker that wait for policies."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], tuple[Claim, RequestInput]] = {}
        self._loading: set[str] = set()

    def __len__(self) -> int:
        return len(self._claims)

    @property
    def names(self) -> set[tuple[str, str]]:
        """Tenant and id of each."""
        return set(self._claims)

    @property
    def loads(self) -> list[AnswerLoad]:
        """The room that they will take."""
        return [_load(*each) for each in self._claims.values()]

    def add(self, claim: Claim, request: RequestInput) -> bool:
        """Take a claim. True where its policy is not being loaded yet."""
        self._claims[claim.tenant, claim.id] = (claim, request)
        new = request.policy not in self._loading
        self._loading.add(request.policy)
        return new

    def ordered(self, tenant: str, id: str, control: Control) -> None:
        """Note control flags, which are obeyed once it is opened."""
        if found := self._claims.get((tenant, id)):
            claim, request = found
            flagged = msgspec.structs.replace(claim, control=claim.control | control)
            self._claims[tenant, id] = (flagged, request)

    def loaded(self, hash: str) -> list[Claim]:
        """Let go of those that waited for this policy, which is loaded or cannot be."""
        self._loading.discard(hash)
        found = [claim for claim, request in self._claims.values() if request.policy == hash]
        self.forget({(claim.tenant, claim.id) for claim in found})
        return found

    def forget(self, names: set[tuple[str, str]]) -> list[Claim]:
        """Let go of these, where they wait."""
        return [self._claims.pop(name)[0] for name in names & self._claims.keys()]


def _load(claim: Claim, request: RequestInput) -> AnswerLoad:
    return AnswerLoad(
        tenant=claim.tenant,
        prompt_tokens=len(request.prompt) // TOKEN_BYTES,
        tokens=claim.n,
        max_tokens=request.sampling.max_tokens,
        granted=max(claim.granted, claim.n),
        prefilling=True,
    )
