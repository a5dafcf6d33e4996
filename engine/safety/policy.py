"""Safety policies: documents, their hashes, and what a filter needs of them. Pure.

A request is answered under the policy whose hash it carries. The platform's defaults stand here, former ones
too, as answers that began under them go on under them.
"""

import hashlib
from collections.abc import Sequence

import msgspec

from engine.safety.detectors import DETECTORS
from engine.safety.scanner import Rule, Scanner
from engine.safety.verdicts import Action, Scope

UNFILTERED = ""  # the hash of no policy: admitted before there were any


class UnknownPolicyError(Exception):
    """No such policy is known here. The message has its hash."""


class PolicyDetector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A detector of a policy, what is done about its matches, and whose rule that is."""

    name: str
    action: Action
    version: int = 1
    scope: Scope = "platform"


class PolicyDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is looked for in an answer; the order decides between matches of one place and length."""

    detectors: tuple[PolicyDetector, ...]


DEFAULT = PolicyDocument(
    detectors=(
        PolicyDetector("private_key", "redact"),
        PolicyDetector("api_key", "redact"),
        PolicyDetector("card", "redact"),
        PolicyDetector("iban", "redact"),
        PolicyDetector("email", "flag"),
        PolicyDetector("phone", "flag"),
    )
)
_FORMER: tuple[PolicyDocument, ...] = ()


def policy_hash(document: PolicyDocument) -> str:
    """SHA-256 of the document as it is stored, in hex."""
    return hashlib.sha256(msgspec.json.encode(document)).hexdigest()


class CompiledPolicy:
    """A policy's rules, compiled: `vetoes` block or redact, `flags` only flag. Thread-safe."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.vetoes = Scanner([rule for rule in rules if rule.action != "flag"])
        self.flags = Scanner([rule for rule in rules if rule.action == "flag"])


def compiled(document: PolicyDocument) -> CompiledPolicy:
    """Raises UnknownPolicyError for a detector that is not known here."""
    return CompiledPolicy([rule for detector in document.detectors for rule in _rules(detector)])


def _rules(asked: PolicyDetector) -> list[Rule]:
    detector = DETECTORS.get((asked.name, asked.version))
    if detector is None:
        raise UnknownPolicyError(f"detector {asked.name} version {asked.version}")
    return [
        Rule(each.pattern, detector.category, asked.action, asked.scope, each.check, each.tail, each.joins)
        for each in detector.patterns
    ]


DEFAULT_POLICY = policy_hash(DEFAULT)


class BuiltInPolicies:
    """The platform's default policy and its former ones, each compiled when it is first asked for."""

    def __init__(self) -> None:
        self._documents = {policy_hash(document): document for document in (DEFAULT, *_FORMER)}
        self._compiled: dict[str, CompiledPolicy] = {}

    def compiled(self, hash: str) -> CompiledPolicy:
        """Raises UnknownPolicyError."""
        if hash not in self._compiled:
            if hash not in self._documents:
                raise UnknownPolicyError(f"policy {hash[:64]!r}")
            self._compiled[hash] = compiled(self._documents[hash])
        return self._compiled[hash]
