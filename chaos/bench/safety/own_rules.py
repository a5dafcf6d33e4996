"""What policies with many rules of their own cost beside the default one, and what many of them hold."""

import gc
import re
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from chaos.bench.safety.costs import PIECE, PIECES_MAX, cost_of, texts
from chaos.figures.figures import Figure
from chaos.figures.samples import percentile
from engine.safety.documents import DEFAULT, PolicyDocument, PolicyPattern, PolicyWords
from engine.safety.filter import Filter
from engine.safety.policy import CompiledPolicy, compiled

PATTERNS = 1_000
WORDS = 10_000
POLICIES = 200
POLICY_PATTERNS, POLICY_WORDS = 20, 200  # of each
MORE_US = 20
MIB = 1 << 20
_WORD = re.compile("[a-z]{3,}")


def own_rules() -> list[Figure]:
    """Cost on prose and Markdown, time to compile, and memory of many policies."""
    random, seen = Random(36), texts()
    vocabulary = sorted(set(_WORD.findall(seen["Markdown"].lower())))
    patterns = tuple(_patterns(random, vocabulary, PATTERNS))
    words = PolicyWords("words", tuple(_words(random, vocabulary, WORDS)), "redact")
    figures: list[Figure] = []
    for name, document in (
        (f"{PATTERNS:,} patterns", PolicyDocument(DEFAULT.detectors, patterns)),
        (f"{WORDS:,} words", PolicyDocument(DEFAULT.detectors, words=(words,))),
    ):
        began = time.process_time()
        policy = compiled(document)
        figures.append(Figure(f"{name}: compiled in", (time.process_time() - began) * 1e3, "ms of CPU"))
        figures += _costs(name, policy, {kind: seen[kind] for kind in ("prose", "Markdown")})
    return [*figures, *_memory(random, vocabulary, seen["prose"])]


def _costs(name: str, policy: CompiledPolicy, seen: dict[str, str]) -> Iterator[Figure]:
    default = compiled(DEFAULT)
    for kind, text in seen.items():
        before, cost = cost_of(default, text), cost_of(policy, text)
        more = cost.piece_us - before.piece_us
        yield Figure(f"{name}, {kind}: CPU beside the default", more, "µs a token", most=MORE_US)
        yield Figure(f"{name}, {kind}: held, p95", percentile(cost.hold, 0.95), "tokens")
        yield Figure(f"{name}, {kind}: again", cost.replay_ms, "ms")


def _memory(random: Random, vocabulary: list[str], text: str) -> list[Figure]:
    """Of policies that all were used."""
    pieces = PIECE.findall(text)[: PIECES_MAX // 10]
    kept: list[CompiledPolicy] = []
    before = _resident()
    for _ in range(POLICIES):
        patterns = tuple(_patterns(random, vocabulary, POLICY_PATTERNS))
        words = PolicyWords("words", tuple(_words(random, vocabulary, POLICY_WORDS)), "redact")
        kept.append(compiled(PolicyDocument(DEFAULT.detectors, patterns, (words,))))
        filter = Filter(kept[-1])
        for piece in pieces:
            filter.feed(piece)
    taken, said = (_resident() - before) / MIB, sum(policy.size for policy in kept) / MIB
    return [
        Figure(f"{POLICIES} policies: memory", taken, "MiB", most=said),
        Figure(f"{POLICIES} policies: counted", said, "MiB", most=512),
    ]


def _patterns(random: Random, vocabulary: list[str], count: int) -> Iterator[PolicyPattern]:
    """Numbers behind labels, phrases, codes; one in ten begins with no fixed letters."""
    for at in range(count):
        one, other = random.choice(vocabulary), random.choice(vocabulary)
        code = "".join(random.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=3))
        pattern = (
            rf"\b{one} [a-z]{{3,12}} {other}\b",
            f"{one}-[0-9]{{4,8}}",
            rf"{one}[ _-]?{other}\b",
            f"{code}-?[A-Z0-9]{{8,20}}",
            rf"\b{one}(?:s|ed)? number [0-9]{{3,9}}\b",
        )[at % 5]
        if at % 10 == 9:
            pattern = rf"\b[A-Z]{{2}}{at % 7}[0-9]{{3,{4 + at % 9}}}{code[0]}\b"
        yield PolicyPattern(f"own{at}", pattern, "redact", ignore_case=at % 5 == 2)


def _words(random: Random, vocabulary: list[str], count: int) -> Iterator[str]:
    """Words and phrases of the texts, and names that are in none."""
    for at in range(count):
        if at % 3:
            yield "".join(random.choices("abcdefghiklmnoprstu", k=random.randint(4, 10)))
        else:
            yield " ".join(random.sample(vocabulary, 1 + at % 2))


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
