"""Cost of a period by tiers, minimums and commitments, less the posted amount. Pure.

Everything is a function of the period's sums: f(sums) - posted. So the order of events, the size of batches
and the number of earlier true-ups change no total.

- A price version prices the quantity that was admitted under it, from its first tier on.
- A commitment covers units of the oldest version first; overage, tiers or the flat price apply to the rest.
- A meter's minimum is that of the newest version under which it was used, and holds for all of them together;
  covered units have none.
- Reasoning is priced and counted with output.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from billing.money import UNITS, round_half_even
from billing.prices.price_file_tiers import TIERED, TierKey
from billing.prices.rating import Meter
from billing.prices.tiers import TierMode, TierPrices, checked_amount, cost_of

ANY_MODEL = "*"
FLAT = TierPrices(TierMode.FLAT)


class TrueUpKey(NamedTuple):
    """Key of a sum: a model and meter under one price version. Book empty: the fee of a commitment, or with
    MINIMUM the rest up to a spending commitment."""

    model: str
    meter: Meter
    book: str = ""
    version: int = 0


LACKING = TrueUpKey("", Meter.MINIMUM)


@dataclass(frozen=True)
class PeriodSums:
    """Sums of a period's lines under one key. `posted_nano`: of all lines; `flat_nano`: without true-ups."""

    quantity: int = 0
    flat_nano: int = 0
    posted_nano: int = 0

    def __add__(self, other: "PeriodSums") -> "PeriodSums":
        return PeriodSums(
            self.quantity + other.quantity,
            self.flat_nano + other.flat_nano,
            self.posted_nano + other.posted_nano,
        )


@dataclass(frozen=True)
class VersionPrices:
    """A price version: its start, its flat prices, its tiers."""

    valid_from_ms: int
    flat: Mapping[TierKey, int] = field(default_factory=dict[TierKey, int])
    tiers: Mapping[TierKey, TierPrices] = field(default_factory=dict[TierKey, TierPrices])

    def key_for(self, model: str, meter: Meter) -> TierKey:
        """Key of the model's own prices, or of those for any model."""
        return (model if (model, meter) in self.flat else ANY_MODEL, meter)


Versions = Mapping[tuple[str, int], VersionPrices]


@dataclass(frozen=True)
class CommittedInPeriod:
    """A tenant's commitment in a period. Without a meter: to spend `committed_nano` in all. Else to use
    `units` of the model (`*`: of any) and meter for `committed_nano`."""

    committed_nano: int
    model: str = ""
    meter: Meter | None = None
    units: int = 0
    overage_nano: int | None = None


@dataclass(frozen=True)
class TrueUp:
    """Cost of one key in a period, its posted amount, and the rule that decided (`why`). `flat_nano`: sum of
    its lines without true-ups."""

    key: TrueUpKey
    quantity: int
    posted_nano: int
    cost_nano: int
    why: str
    flat_nano: int = 0

    @property
    def difference_nano(self) -> int:
        """Amount to charge; negative: to give back."""
        return self.cost_nano - self.posted_nano


def true_up(
    sums: Mapping[TrueUpKey, PeriodSums], versions: Versions, commitments: Sequence[CommittedInPeriod] = ()
) -> list[TrueUp]:
    """Cost of all keys that something but the flat price decides, in order; also those without a difference.

    Raises ValueError for an amount that no book can hold."""
    used = _with_reasoning(sums)
    covering = _Covering(commitments)
    groups: dict[tuple[str, Meter], list[TrueUpKey]] = {}
    for key in sorted(used):
        if key.book:
            groups.setdefault((key.model, key.meter), []).append(key)
    found: list[TrueUp] = []
    for group in groups.values():
        found += _of_meter(group, used, versions, covering)
    found += _fees(used, covering.fees)
    lacking = _lacking(used, found, sum(each.committed_nano for each in commitments if each.meter is None))
    return [*found, *lacking]


def _with_reasoning(sums: Mapping[TrueUpKey, PeriodSums]) -> dict[TrueUpKey, PeriodSums]:
    merged: dict[TrueUpKey, PeriodSums] = {}
    for key, each in sums.items():
        of = key._replace(meter=Meter.OUTPUT) if key.meter is Meter.REASONING else key
        merged[of] = merged.get(of, PeriodSums()) + each
    return merged


class _Covering:
    """Hands out committed units, each once."""

    def __init__(self, commitments: Iterable[CommittedInPeriod]) -> None:
        self.fees: dict[TrueUpKey, int] = {}
        self._left: dict[tuple[str, Meter], int] = {}
        self._overage: dict[tuple[str, Meter], int | None] = {}
        for each in commitments:
            if each.meter is None:
                continue
            key = TrueUpKey(each.model, each.meter)
            self.fees[key] = self.fees.get(key, 0) + each.committed_nano
            self._left[each.model, each.meter] = self._left.get((each.model, each.meter), 0) + each.units
            self._overage[each.model, each.meter] = each.overage_nano

    def holds(self, model: str, meter: Meter) -> bool:
        """True where a commitment covers this model and meter."""
        return (model, meter) in self._left or (ANY_MODEL, meter) in self._left

    def take(self, model: str, meter: Meter, quantity: int) -> int:
        """Cover the quantity, by the model's own commitment first, then by any model's; return the rest."""
        for key in ((model, meter), (ANY_MODEL, meter)):
            covered = min(quantity, self._left.get(key, 0))
            quantity -= covered
            if covered:
                self._left[key] -= covered
        return quantity

    def overage_nano(self, model: str, meter: Meter) -> int | None:
        """Price of uncovered units; None: the book's."""
        own = self._overage.get((model, meter))
        return self._overage.get((ANY_MODEL, meter)) if own is None else own


def _of_meter(
    keys: Sequence[TrueUpKey], used: Mapping[TrueUpKey, PeriodSums], versions: Versions, covering: _Covering
) -> list[TrueUp]:
    """True up one model and meter, version by version, oldest first."""
    ordered = sorted(keys, key=lambda key: (_version(versions, key).valid_from_ms, key))
    covered = covering.holds(keys[0].model, keys[0].meter)
    found: list[TrueUp] = []
    minimum = 0
    for key in ordered:
        each, prices = used[key], _version(versions, key)
        tiers = prices.tiers.get(prices.key_for(key.model, key.meter))
        if each.quantity and tiers is not None:
            minimum = tiers.minimum_nano
        elif each.quantity:
            minimum = 0
        if tiers is None and not covered:
            cost, why = each.flat_nano, ""
        else:
            cost, why = _cost(key, each, prices, tiers or FLAT, covering)
        found.append(TrueUp(key, each.quantity, each.posted_nano, cost, why, each.flat_nano))
    short = minimum - sum(each.cost_nano for each in found)
    if not covered and short > 0:
        newest = found[-1]
        found[-1] = replace(newest, cost_nano=newest.cost_nano + short, why="minimum")
    return [each for each in found if each.why or each.difference_nano]


def _cost(
    key: TrueUpKey, each: PeriodSums, prices: VersionPrices, tiers: TierPrices, covering: _Covering
) -> tuple[int, str]:
    """Cost of the uncovered units, and the rule that decided it."""
    rest = covering.take(key.model, key.meter, each.quantity)
    overage = covering.overage_nano(key.model, key.meter)
    if rest < each.quantity or overage is not None:
        flat = prices.flat.get(prices.key_for(key.model, key.meter)) if overage is None else overage
        if flat is None:
            raise ValueError(f"version {key.version} of {key.book!r} has no price for {key.model!r}")
        if overage is not None or tiers.mode is TierMode.FLAT:
            return checked_amount(round_half_even(rest * flat, UNITS)), "commitment"
    return cost_of(rest, tiers, each.flat_nano), tiers.mode.value


def _version(versions: Versions, key: TrueUpKey) -> VersionPrices:
    return versions.get((key.book, key.version), VersionPrices(0))


def _fees(used: Mapping[TrueUpKey, PeriodSums], fees: Mapping[TrueUpKey, int]) -> list[TrueUp]:
    """Fees of commitments to units, whether used or not; booked fees of commitments since withdrawn become
    zero."""
    booked = {key for key, each in used.items() if not key.book and key.meter in TIERED and each.posted_nano}
    return [
        TrueUp(
            key, 0, used.get(key, PeriodSums()).posted_nano, checked_amount(fees.get(key, 0)), "commitment"
        )
        for key in sorted(booked | set(fees))
    ]


def _lacking(
    used: Mapping[TrueUpKey, PeriodSums], found: Sequence[TrueUp], committed_nano: int
) -> list[TrueUp]:
    """Rest up to the committed spending."""
    posted = used.get(LACKING, PeriodSums()).posted_nano
    spent = sum(each.posted_nano for key, each in used.items() if key != LACKING)
    spent += sum(each.difference_nano for each in found)
    lacks = checked_amount(max(0, committed_nano - spent))
    return [TrueUp(LACKING, 0, posted, lacks, "minimum")] if committed_nano or posted else []
