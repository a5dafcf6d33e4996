"""Decides whether a tenant may ask for an answer of a shape, and whether the model's workers can serve it
beside others.

The last of the cheap checks and the first costly one: a shape that was never tried is tried on a worker's
node, for some seconds at most.
"""

from billing.api import Principal
from core.errors import Refused
from engine.api import ShapeTrials, format_of, uses_patterns
from server.models.catalogue import ServedModel
from server.protocol.codes import ErrorCode, refusal

NO_PATTERNS = (
    "options.response_format: patterns (type regex, and pattern in a schema) are turned off for this tenant: "
    "use choice, enum or format, or ask the operator for `parley tenants set --regex on`"
)


class AnswerFormats:
    """One gateway's check of `response_format`."""

    def __init__(self, trials: ShapeTrials) -> None:
        self._trials = trials

    async def check(self, principal: Principal, served: ServedModel, packed: str | None) -> None:
        """Raises Refused where this packed shape is not served."""
        if packed is None:
            return
        if not principal.regex and uses_patterns(packed):
            raise Refused(refusal(ErrorCode.BAD_REQUEST, NO_PATTERNS))
        if format_of(packed).object:
            return  # true for every request
        fingerprint = served.record.fingerprint
        found = await self._trials.refusal(served.pool, fingerprint, principal.tenant, packed)
        if found is not None:
            raise Refused(found)
