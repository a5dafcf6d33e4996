"""Which worker indexes of a supervisor stay, start and drain, so that so many of each version run. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ANY = ""  # of whatever version runs; one that starts is of the pool's version in use


@dataclass(frozen=True)
class IndexNow:
    """One worker index. `version`: ANY where it is not known yet; `drains`: it was told to end."""

    index: int
    version: str
    is_ready: bool = False
    drains: bool = False


@dataclass(frozen=True)
class IndexFit:
    """`versions`: of the indexes that stay; `drain`: those that are too many; `start`: index and version."""

    versions: dict[int, str] = field(default_factory=dict[int, str])
    drain: list[int] = field(default_factory=list[int])
    start: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])


def fit(running: Sequence[IndexNow], wanted: Mapping[str, int]) -> IndexFit:
    """What becomes of these indexes. Those that are not ready drain first, then the highest; one that starts
    takes the lowest free index, and never makes more of them than are wanted in all."""
    found = IndexFit()
    missing = list[str]()
    left = [each for each in running if not each.drains]
    for version in sorted(wanted, key=lambda each: each == ANY):
        able = [each for each in left if version in (each.version, ANY) or each.version == ANY]
        able.sort(key=lambda each: (version not in (each.version, ANY), not each.is_ready, each.index))
        kept = able[: wanted[version]]
        found.versions.update({each.index: each.version or version for each in kept})
        left = [each for each in left if each not in kept]
        missing += [version] * (wanted[version] - len(kept))
    found.drain.extend(sorted(each.index for each in left))
    taken = {each.index for each in running}
    for version in missing[: max(0, sum(wanted.values()) - len(running))]:
        index = next(index for index in range(len(taken) + 1) if index not in taken)
        taken.add(index)
        found.start.append((index, version))
    return found


def wanted_versions(running: Sequence[IndexNow], wanted: Mapping[str, int]) -> dict[str, int]:
    """How many of each version are wanted, those of no named one by what runs."""
    found = fit(running, wanted)
    counts = Counter(found.versions.values())
    counts.update(version for _, version in found.start)
    for version, count in wanted.items():
        if version != ANY:
            counts[version] = count
    if rest := sum(wanted.values()) - counts.total():
        counts[ANY] += rest
    return {version: count for version, count in counts.items() if count > 0}
