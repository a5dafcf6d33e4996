"""How many of what a seeded installation has. A few tenants are large, most are small. Pure."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

DAY_MS = 86_400_000
FIRST = ("acme", "birch", "cobalt", "delta", "ember", "fjord", "garnet", "harbor", "iris", "juniper")
SECOND = ("labs", "works", "health", "bank", "media", "motors", "foods", "energy", "studio", "systems")
LEVELLING = 0.9  # of sizes by rank: 1 would halve the second, 0 make all alike


@dataclass(frozen=True)
class SeedShape:
    """An installation: its tenants, and the usage events of the days before `end_ms`."""

    tenants: int
    events: int
    end_ms: int
    days: int = 60
    seed: str = "parley"

    @property
    def start_ms(self) -> int:
        """When its first day begins."""
        return self.end_ms - self.days * DAY_MS


@dataclass(frozen=True)
class TenantShape:
    """Numbers of one tenant's things. `rank` 0 is the largest."""

    rank: int
    events: int
    users: int
    keys: int
    projects: int
    limits: int
    budgets: int
    members: int
    sessions: int

    @property
    def name(self) -> str:
        """Its name, by its rank."""
        return f"{FIRST[self.rank % len(FIRST)]}-{SECOND[self.rank // len(FIRST) % len(SECOND)]}" + (
            f"-{self.rank}" if self.rank >= len(FIRST) * len(SECOND) else ""
        )

    @property
    def prepaid(self) -> bool:
        """Whether it pays before it asks, as every third does."""
        return self.rank % 3 == 1


def tenant_shapes(shape: SeedShape) -> list[TenantShape]:
    """The tenants, the largest first. Numbers grow with the installation."""
    n = shape.tenants
    return [
        TenantShape(
            rank,
            events,
            users=_size(rank, 2 * n + 4, 2),
            keys=_size(rank, n // 2 + 4, 2),
            projects=_size(rank, n // 25 + 3, 1),
            limits=_size(rank, n // 16 + 4, 2),
            budgets=_size(rank, n // 50 + 3, 1),
            members=_size(rank, n // 20 + 3, 1),
            sessions=_size(rank, n // 2 + 4, 1),
        )
        for rank, events in enumerate(_shares(shape))
    ]


def chance_of(shape: SeedShape, *of: object) -> random.Random:
    """A generator of its own for one thing of a shape."""
    return random.Random(":".join(map(str, (shape.seed, *of))))


def _size(rank: int, most: int, least: int) -> int:
    return max(least, int(most / (rank + 1) ** LEVELLING))


def _shares(shape: SeedShape) -> Sequence[int]:
    """Events of each rank; all of them together are those of the shape."""
    weights = [1 / (rank + 1) for rank in range(shape.tenants)]
    whole, given, shares = sum(weights), 0, list[int]()
    running = 0.0
    for weight in weights:
        running += weight
        until = round(shape.events * running / whole)
        shares.append(until - given)
        given = until
    return shares
