"""What a filter needs of a policy's document: its rules, compiled. Pure.

A request is answered under the policy whose hash it carries. Those of the platform's defaults are known here,
former ones too, as answers that began under them go on under them.
"""

from collections.abc import Iterator, Sequence

from engine.safety.detectors import DETECTORS
from engine.safety.documents import (
    DEFAULT,
    FORMER,
    Of,
    PolicyDetector,
    PolicyDocument,
    PolicyError,
    PolicyPattern,
    PolicyWords,
    policy_hash,
)
from engine.safety.rules import Rule
from engine.safety.scanner import TOGETHER_MAX, Scanner
from engine.safety.verdicts import Action

BASE_BYTES = 200 << 10  # of the smallest policy
UNFILTERED = ""  # the hash of no policy: admitted before there were any


class UnknownPolicyError(PolicyError):
    """No such policy or detector is known here. The message has its hash or name."""


class CompiledPolicy:
    """A policy's rules, compiled: `vetoes` block or redact, `flags` only flag. Thread-safe. `size`:
    bytes that it holds beside what all policies share, estimated."""

    def __init__(self, rules: Sequence[Rule], together_max: int = TOGETHER_MAX) -> None:
        self.vetoes = Scanner([rule for rule in rules if rule.action != "flag"], together_max)
        self.flags = Scanner([rule for rule in rules if rule.action == "flag"], together_max)
        self.size = BASE_BYTES + self.vetoes.size + self.flags.size


def compiled(document: PolicyDocument, of: Of = "answer") -> CompiledPolicy:
    """What it looks for in answers, or in prompts. Raises PolicyError: a detector that is not known here, or
    a pattern that no policy may have."""
    return CompiledPolicy(list(rules_of(document, of)))


def rules_of(document: PolicyDocument, of: Of) -> Iterator[Rule]:
    """Its rules, in its order."""
    for detector in document.detectors:
        if action := _action(detector, of):
            yield from _detector_rules(detector, action)
    for own in document.patterns:
        if action := _action(own, of):
            yield own_rule(own, action)
    for words in document.words:
        if action := _action(words, of):
            yield words_rule(words, action)


def own_rule(own: PolicyPattern, action: Action) -> Rule:
    """The rule of a policy's own pattern."""
    pattern = f"(?i:{own.pattern})" if own.ignore_case else own.pattern
    return Rule(pattern, own.name, action, own.scope, own=True)


def words_rule(words: PolicyWords, action: Action) -> Rule:
    """The rule of a list of words."""
    return Rule("", words.name, action, words.scope, words=words.words, own=True)


def _action(entry: PolicyDetector | PolicyPattern | PolicyWords, of: Of) -> Action | None:
    return entry.action if of == "answer" else entry.prompt


def _detector_rules(asked: PolicyDetector, action: Action) -> Iterator[Rule]:
    detector = DETECTORS.get((asked.name, asked.version))
    if detector is None:
        raise UnknownPolicyError(f"detector {asked.name} version {asked.version}")
    for each in detector.patterns:
        yield Rule(
            each.pattern,
            detector.category,
            action,
            asked.scope,
            each.check,
            each.tail,
            each.joins,
            each.not_behind,
        )


class BuiltInPolicies:
    """The platform's default policy and its former ones, each compiled when it is first asked for."""

    def __init__(self) -> None:
        self._documents = {policy_hash(document): document for document in (DEFAULT, *FORMER)}
        self._compiled: dict[str, CompiledPolicy] = {}

    def compiled(self, hash: str) -> CompiledPolicy:
        """Raises UnknownPolicyError."""
        if hash not in self._compiled:
            if hash not in self._documents:
                raise UnknownPolicyError(f"policy {hash[:64]!r}")
            self._compiled[hash] = compiled(self._documents[hash])
        return self._compiled[hash]
