"""What the default policy's filter costs and holds back, on this repository's own texts."""

import re
import statistics
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.safety.filter import Filter
from engine.safety.policy import CompiledPolicy

ROOT = Path(__file__).parents[3]
PIECE = re.compile(r" ?\w{1,6}|\s{1,4}|[^\w\s]{1,3}")  # about as long as tokens
PIECES_MAX = 20_000
REPLAYED = 8_000


@dataclass(frozen=True)
class FilterCost:
    """`hold`: pieces that are not wholly decided after each one, sorted. `piece_us` is CPU, `replay_ms` that
    of REPLAYED pieces at once."""

    hold: list[int]
    piece_us: float
    replay_ms: float
    redacted: int


def texts() -> dict[str, str]:
    """Prose, code and Markdown."""
    markdown = "\n".join(file.read_text() for file in sorted((ROOT / "docs").rglob("*.md")))
    prose = re.sub(r"```.*?```|`[^`\n]*`|\|.*\||[*#<>\[\]()]", "", markdown, flags=re.DOTALL)
    code = "\n".join(file.read_text() for file in sorted((ROOT / "engine").rglob("*.py")))
    return {"prose": prose, "code": code, "Markdown": markdown}


def cost_of(policy: CompiledPolicy, text: str) -> FilterCost:
    """Of one answer with this text."""
    pieces = PIECE.findall(text)[:PIECES_MAX]
    runs = [_piece_us(policy, pieces) for _ in range(3)]
    filter = Filter(policy)
    began = time.process_time()
    filter.feed("".join(pieces[:REPLAYED]))
    replay_ms = (time.process_time() - began) * 1e3
    redacted = sum(count for (_, action), count in filter.counts.items() if action != "flag")
    return FilterCost(_hold(policy, pieces), statistics.median(runs), replay_ms, redacted)


def _piece_us(policy: CompiledPolicy, pieces: Sequence[str]) -> float:
    filter = Filter(policy)
    began = time.process_time()
    for piece in pieces:
        filter.feed(piece)
    return (time.process_time() - began) / len(pieces) * 1e6


def _hold(policy: CompiledPolicy, pieces: Sequence[str]) -> list[int]:
    filter = Filter(policy)
    ends: deque[int] = deque()
    found: list[int] = []
    fed = 0
    for piece in pieces:
        filter.feed(piece)
        fed += len(piece)
        ends.append(fed)
        while ends and ends[0] <= filter.raw:
            ends.popleft()
        found.append(len(ends))
    return sorted(found)


def epochs_redacted(policy: CompiledPolicy, count: int) -> int:
    """Redactions in `count` times in milliseconds, of a few years, one a second and more."""
    filter = Filter(policy)
    filter.feed(
        "".join(f"at {1_500_000_000_000 + 7_919_117 * number} ms\n" for number in range(count)), final=True
    )
    return sum(filter.counts.values())
