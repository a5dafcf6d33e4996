"""What was agreed, asked and ordered, as the driver of a run knows it. Times are Unix milliseconds, amounts
integers of nano-USD. Nothing of the product is imported here."""

from collections.abc import Mapping
from dataclasses import dataclass, field

UNITS = 1_000_000  # prices are for so many units
ANY_MODEL = "*"
INPUT, CACHED, OUTPUT, REQUEST = "input", "cached_input", "output", "request"
METERS = (INPUT, CACHED, OUTPUT, REQUEST)
TOKENS = (INPUT, CACHED, OUTPUT)
MINIMUM = "minimum"  # what lacked to a spending commitment
PAID, PROMO = "paid", "promo"
VOID, CLAW_BACK, PAY_OUT = "void", "claw_back", "pay_out"

Quantities = Mapping[str, int]  # by meter
Request = tuple[str, str]  # tenant, id


@dataclass(frozen=True)
class Prices:
    """A model's flat prices: for 1,000,000 tokens, and for one request."""

    input: int
    cached_input: int
    output: int
    request: int = 0

    def of_units(self, meter: str) -> int:
        """For 1,000,000 units of a meter."""
        return self.request * UNITS if meter == REQUEST else int(getattr(self, meter))


@dataclass(frozen=True)
class Tiers:
    """What a month's quantity of one meter costs. `steps` of graduated and volume: up to and including which
    unit (None: all above), and the price of 1,000,000. Of a package: its size and what one costs."""

    mode: str = "flat"
    steps: tuple[tuple[int | None, int], ...] = ()
    size: int = 0
    price: int = 0
    minimum: int = 0


@dataclass(frozen=True)
class Version:
    """A version of a price book. `known_ms`: from when on every gateway had been told of it: where that is
    after its beginning, requests between may have the prices before."""

    book: str
    number: int
    begins_ms: int
    prices: Mapping[str, Prices]
    tiers: Mapping[tuple[str, str], Tiers] = field(default_factory=dict[tuple[str, str], Tiers])
    known_ms: int = 0
    withdrawn: bool = False

    def prices_of(self, model: str) -> Prices | None:
        """The model's own; of one that is not named, those for any."""
        return self.prices.get(model) or self.prices.get(ANY_MODEL)

    def tiers_of(self, model: str, meter: str) -> Tiers | None:
        """Those beside the flat prices that hold for the model."""
        return self.tiers.get((model if model in self.prices else ANY_MODEL, meter))


@dataclass(frozen=True)
class MonthlyCommitment:
    """What a tenant committed to in a month. Without a meter: to spend so much in all. Else to units for that
    amount; those beyond cost `overage` for 1,000,000, None: what the book says. It holds from its first month
    on, up to that which begins at `until_ms`."""

    amount: int
    meter: str = ""
    model: str = ""
    units: int = 0
    overage: int | None = None
    from_ms: int = 0
    until_ms: int | None = None

    def holds(self, month_ms: int) -> bool:
        """In the month that begins then. One that was taken back, or ended before it began, in none."""
        return self.from_ms <= month_ms and (self.until_ms is None or month_ms < self.until_ms)


@dataclass(frozen=True)
class Customer:
    """A tenant: its zone, its book with that book's parents, what it committed to for every month."""

    id: str
    name: str
    zone: str
    books: tuple[str, ...]
    commitments: tuple[MonthlyCommitment, ...] = ()
    prepaid: bool = False


@dataclass(frozen=True)
class ClientAnswer:
    """An answer as its client saw it, and whose it was: sent, heard to be accepted, heard to have ended.

    `characters`: of its text, one for each token; `asked_input`: the tokens of its prompt, counted here."""

    tenant: str
    id: str
    project: str
    key: str
    user: str
    model: str
    sent_ms: int
    heard_ms: int
    ended_ms: int
    reason: str
    input: int
    cached: int
    output: int
    cost: int
    characters: int
    asked_input: int

    @property
    def key_of(self) -> Request:
        """Tenant and request."""
        return self.tenant, self.id

    @property
    def quantities(self) -> dict[str, int]:
        """What it used. One that used nothing is no request either."""
        ran = 1 if self.input + self.output else 0
        return {INPUT: self.input - self.cached, CACHED: self.cached, OUTPUT: self.output, REQUEST: ran}


@dataclass(frozen=True)
class Corrected:
    """An order that was carried out: from now on a request counts with these quantities, in all. `cause` is
    its name in the books."""

    tenant: str
    id: str
    cause: str
    quantities: Quantities

    @property
    def key_of(self) -> Request:
        """Tenant and request."""
        return self.tenant, self.id


@dataclass(frozen=True)
class Granted:
    """Money that was put into a wallet. The lowest `priority` is spent first, then what ends first. `kind`:
    only what was paid is paid out."""

    tenant: str
    key: str
    amount: int
    priority: int
    ends_ms: int | None = None
    kind: str = PAID


@dataclass(frozen=True)
class CreditTaken:
    """Money that was taken out of a wallet: of the grant of this key, or paid out from what was paid, the
    newest first. `key`: its name in the books."""

    tenant: str
    kind: str
    key: str
    amount: int
    grant: str = ""


@dataclass(frozen=True)
class CostCenterChanged:
    """From then on a project is charged to this cost center."""

    tenant: str
    project: str
    center: str
    from_ms: int


@dataclass(frozen=True)
class MonthClosed:
    """A month that was closed for a tenant, given by any of its moments."""

    tenant: str
    at_ms: int


Fact = ClientAnswer | Corrected | Granted | CreditTaken | MonthClosed


@dataclass
class History:
    """All of a run, `facts` in the order in which they came to be; at a closing nothing else moved.

    `unapproved`: tenants, and the names in the books of what was proposed and never approved."""

    customers: dict[str, Customer] = field(default_factory=dict[str, Customer])
    versions: list[Version] = field(default_factory=list[Version])
    facts: list[Fact] = field(default_factory=list[Fact])
    moved: list[CostCenterChanged] = field(default_factory=list[CostCenterChanged])
    unapproved: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def center_at(self, tenant: str, project: str, at_ms: int) -> str:
        """The cost center that a project is charged to then; empty: none."""
        own = [each for each in self.moved if (each.tenant, each.project) == (tenant, project)]
        begun = [each for each in own if each.from_ms <= at_ms]
        return max(begun, key=lambda each: each.from_ms).center if begun else ""
