"""The filter's output beside the definition's, however its text was cut and taken over. Pure."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from chaos.bench.safety.documents import NAMES, cuts, document, json_document, rules
from chaos.bench.safety.oracle import Vetted, vetted
from engine.safety.constrained_names import ConstrainedNames
from engine.safety.filter import Filter
from engine.safety.json_view import JsonView
from engine.safety.policy import CompiledPolicy
from engine.safety.rules import Rule
from engine.safety.seam import seam_behind
from engine.safety.verdicts import Block, Flag

SPLITS = 3
LIMITS = 20  # of a document that are tried for one behind a redaction
POLICIES = 50  # compiling one takes as long as a few documents


@dataclass
class Output:
    """What a filter let through so far, flags by place."""

    text: str = ""
    flags: list[Flag] = field(default_factory=list)
    block: Block | None = None
    raw: int = 0


def output_of(filter: Filter, pieces: Sequence[str], final: bool) -> Output:
    """Feed the pieces."""
    found = Output()
    for piece in pieces:
        _add(found, filter.feed(piece))
    if final:
        _add(found, filter.feed("", final=True))
    found.block, found.raw = filter.blocked, filter.raw
    return found


def difference(seed: int) -> str:
    """What differs for the document of a seed; empty where nothing does."""
    random = Random(seed)
    chosen, policy = _policy(seed % POLICIES)
    text = document(random)
    return _difference(random, text, lambda: Filter(policy), vetted(text, chosen))


def json_difference(seed: int) -> str:
    """The same for a document in JSON; what was let through whole is JSON too."""
    random = Random(seed)
    chosen, policy = _policy(seed % POLICIES)
    text = json_document(random)
    names = ConstrainedNames(frozenset(random.sample(NAMES, random.choice((0, 0, 1)))))
    wanted = vetted(text, chosen, JsonView(names).feed(text, final=True))
    if wanted.block is None and not _is_json(wanted.text):
        return f"{text!r} became {wanted.text!r}"
    return _difference(random, text, lambda: Filter(policy, JsonView(names)), wanted)


def seam_difference(seed: int) -> str:
    """The same for what follows a document's length limit, beside the filter fed all of it at once."""
    random = Random(seed)
    _, policy = _policy(seed % POLICIES)
    text = document(random)
    limit, seam = 0, seam_behind("", [])
    for limit in random.sample(range(len(text) + 1), min(len(text) + 1, LIMITS)):
        first = output_of(Filter(policy), [text[:limit]], final=True)
        seam = seam_behind(first.text, first.flags)
        if seam.redacted:
            break
    wanted = output_of(Filter(policy, seam=seam), [text[limit:]], final=True)
    return _difference(random, text[limit:], lambda: Filter(policy, seam=seam), wanted)


def _difference(random: Random, text: str, new: Callable[[], Filter], wanted: Vetted | Output) -> str:
    for _ in range(SPLITS):
        pieces = cuts(random, text)
        if not _same(found := output_of(new(), pieces, final=True), wanted):
            return f"{text!r} as {pieces}: {found}, not {wanted}"
        taken = random.randint(0, len(pieces))
        if problem := _takeover_difference(new, pieces, taken):
            return f"{text!r} taken over after {pieces[:taken]}: {problem}"
    return ""


def _takeover_difference(new: Callable[[], Filter], pieces: Sequence[str], taken: int) -> str:
    """What another filter, fed all at once what the first one was fed, does otherwise from there on."""
    first, second = new(), new()
    before = output_of(first, pieces[:taken], final=False)
    again = output_of(second, ["".join(pieces[:taken])], final=False)
    if not _same(before, again) or (first.visible, first.counts) != (second.visible, second.counts):
        return f"{again}, not {before}"
    rest, rest_again = (output_of(each, pieces[taken:], final=True) for each in (first, second))
    return "" if _same(rest, rest_again) else f"then {rest_again}, not {rest}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _add(found: Output, out: Sequence[str | Flag]) -> None:
    for each in out:
        if isinstance(each, str):
            found.text += each
        else:
            found.flags.append(each)


def _same(one: Output | Vetted, other: Output | Vetted) -> bool:
    return _facts(one) == _facts(other)


def _facts(found: Output | Vetted) -> tuple[object, ...]:
    flags = sorted(found.flags, key=lambda flag: (flag.action, flag.p, flag.category))
    return found.text, flags, found.block, found.raw


@lru_cache(POLICIES)
def _policy(number: int) -> tuple[list[Rule], CompiledPolicy]:
    chosen = rules(Random(f"policy {number}"))
    return chosen, CompiledPolicy(chosen, together_max=(3, 64)[number % 2])
