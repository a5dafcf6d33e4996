"""Limits that apply to one request: rates, concurrency and money, from the open rows. Pure.

Of the rows that count the same thing one holds: a row that names its project, key, user or model replaces the
one for all of them, and a tenant's own row replaces its plan's. A row in shadow mode replaces none: it is
counted on its own and refuses nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from urllib.parse import quote
from zoneinfo import ZoneInfo

import msgspec

from billing.periods import FIRST_MS, LAST_MS, Period, PeriodWindow, window_at
from billing.tables.limits import Budget, QuotaPolicy
from billing.tables.tenants import PLATFORM

LIMIT_NANO_MAX = 4_000_000_000_000_000  # 4,000,000 USD: Lua still counts twice as much exactly
WALLET_MODULUS_NANO = 9_000_000_000_000_000  # below 2^53, and more than twice what a wallet can hold
KEYS_KEPT = 50_000
UNITS_MAX = 100_000_000_000  # 60,000 times it, which scripts compute, stays below 2^53
TOKENS_MAX = 1 << 33
WALLET = "wallet"
WALLET_WINDOW = PeriodWindow(FIRST_MS, LAST_MS)


class Dimension(StrEnum):
    """Quantity that a quota policy counts. Rates are per minute. `answer_tokens` counts nothing: it is the
    length of an answer whose sender gave none."""

    REQUESTS = "requests_per_minute"
    INPUT = "input_tokens_per_minute"
    OUTPUT = "output_tokens_per_minute"
    TOKENS = "tokens_per_minute"
    CONCURRENCY = "concurrency"
    ANSWER = "answer_tokens"


COUNTS = {Dimension.REQUESTS: 1, Dimension.INPUT: 2, Dimension.OUTPUT: 3, Dimension.TOKENS: 4}


class Scope(StrEnum):
    """Owner that a limit is for."""

    TENANT = "tenant"
    PROJECT = "project"
    KEY = "key"
    USER = "user"
    MODEL = "model"


class Mode(StrEnum):
    """`shadow`: counted and reported, never refused."""

    ENFORCE = "enforce"
    SHADOW = "shadow"


@dataclass(frozen=True)
class RequestFacts:
    """Owner and model of a request. `user` may be empty: then no user limit applies. `key`: the owner key of
    its chain of rotations."""

    tenant: str
    project: str
    key: str
    user: str
    model: str

    def id_of(self, scope: Scope) -> str:
        """The id under which a limit of this scope counts; empty for the tenant, which has its own slot."""
        return "" if scope is Scope.TENANT else str(getattr(self, scope.value))


@dataclass(frozen=True)
class UnitLimit:
    """A rate (`limit` units a minute, `burst` at once) or a concurrency (`limit` at once)."""

    scope: Scope
    scope_id: str
    model_glob: str
    dimension: Dimension
    limit: int
    burst: int
    shadow: bool = False

    @property
    def key(self) -> str:
        """Redis key of its count, without the tenant's tag. The limit is not in it, so that an edit resets
        nothing."""
        kind = "conc" if self.dimension is Dimension.CONCURRENCY else "rate"
        return _key(
            f"{kind}{'~' if self.shadow else ''}",
            self.scope,
            self.scope_id,
            self.model_glob,
            self.dimension,
        )


@dataclass(frozen=True)
class MoneyLimit:
    """A budget in one window, or the prepaid wallet (`period` "wallet"). The override holds until its time.

    Not `hard`: counted, never refused; a shadow limit is also reported. Of two revisions the higher holds."""

    scope: Scope
    scope_id: str
    period: str
    window: PeriodWindow
    limit_nano: int
    hard: bool = True
    shadow: bool = False
    override_nano: int | None = None
    override_until_ms: int = 0
    revision: int = 0

    @property
    def key(self) -> str:
        """Redis key of its count, without the tenant's tag."""
        kind = f"money{'~' if self.shadow else ''}"
        return _key(kind, self.scope, self.scope_id, self.period, str(self.window.start_ms))

    @property
    def script_nano(self) -> int:
        """The limit as scripts count it: a wallet's is modulo WALLET_MODULUS_NANO, as it only grows."""
        return self.limit_nano % WALLET_MODULUS_NANO if self.period == WALLET else self.limit_nano

    def limit_at(self, now_ms: int) -> int:
        """The limit in force at a time: the override until its end."""
        overridden = self.override_nano is not None and now_ms < self.override_until_ms
        return self.override_nano if overridden and self.override_nano is not None else self.limit_nano


@dataclass(frozen=True)
class AnswerLimit:
    """The most `tokens` of an answer whose sender gave no length, and whose limit that is."""

    scope: Scope
    tokens: int


@dataclass(frozen=True)
class RequestLimits:
    """All limits that apply to one request; may be empty."""

    units: tuple[UnitLimit, ...] = ()
    money: tuple[MoneyLimit, ...] = ()
    answer: AnswerLimit | None = None

    @cached_property
    def rates(self) -> list[UnitLimit]:
        """Limits on rates, in the order of the scripts."""
        return [each for each in self.units if each.dimension is not Dimension.CONCURRENCY]

    @cached_property
    def concurrency(self) -> list[UnitLimit]:
        """Limits on concurrency, in the order of the scripts."""
        return [each for each in self.units if each.dimension is Dimension.CONCURRENCY]

    @cached_property
    def keys(self) -> list[str]:
        """Keys of all counts."""
        return [each.key for each in (*self.units, *self.money)]

    @cached_property
    def packed(self) -> bytes:
        """The three lists of limits as admit.lua reads them, in msgpack one behind the other."""
        rates = [
            (each.key, COUNTS[each.dimension], each.limit, each.burst, each.shadow) for each in self.rates
        ]
        concurrency = [(each.key, each.limit, each.shadow) for each in self.concurrency]
        money = [
            (
                each.key,
                each.script_nano,
                each.override_nano or 0,
                each.override_until_ms if each.override_nano is not None else 0,
                each.hard,
                each.shadow,
                each.window.end_ms,
                each.revision,
            )
            for each in self.money
        ]
        return b"".join(msgspec.msgpack.encode(part) for part in (rates, concurrency, money))


UNLIMITED = RequestLimits()


@dataclass(frozen=True)
class TenantRows:
    """Open rows of one tenant: its own policies, its plan's, its budgets; its zone; `wallet`: limit of its
    wallet (None: not prepaid), in force until `wallet_until_ms` (None: without end); and the time of
    reading."""

    tenant: str
    zone: ZoneInfo
    policies: Sequence[QuotaPolicy]
    budgets: Sequence[Budget]
    wallet: int | None = None
    read_ms: int = 0
    wallet_until_ms: int | None = None


def limits_of(rows: TenantRows, facts: RequestFacts, now_ms: int) -> RequestLimits:
    """Limits that apply to a request with these facts, accepted at `now_ms`."""
    policies = [
        row
        for row in rows.policies
        if fnmatchcase(facts.model, row.model_glob) and _applies(row.scope, row.scope_id, facts)
    ]
    answers = [row for row in policies if row.dimension == Dimension.ANSWER]
    counted = [row for row in policies if row.dimension != Dimension.ANSWER]
    return RequestLimits(tuple(_units(counted, facts)), tuple(_money(rows, facts, now_ms)), _answer(answers))


def _answer(policies: Iterable[QuotaPolicy]) -> AnswerLimit | None:
    """The least of them; of those with one scope at one level, the plan's, the tenant's or the one set by its
    admins, the one that names whom it is for."""
    chosen: dict[tuple[str, str, bool, bool], QuotaPolicy] = {}
    for row in policies:
        level = (row.scope, row.model_glob, row.tenant_id == PLATFORM, row.by_tenant)
        other = chosen.get(level)
        if other is None or _rank(row) > _rank(other):
            chosen[level] = row
    least = min(chosen.values(), key=lambda row: row.limit_units, default=None)
    return None if least is None else AnswerLimit(Scope(least.scope), least.limit_units)


def _units(policies: Iterable[QuotaPolicy], facts: RequestFacts) -> Iterable[UnitLimit]:
    """One for each count: the operators' or the plan's, or the admins' own, whichever is stricter."""
    chosen: dict[tuple[str, str, str, str], dict[bool, QuotaPolicy]] = {}
    for row in policies:
        levels = chosen.setdefault((row.scope, row.model_glob, row.dimension, row.mode), {})
        other = levels.get(row.by_tenant)
        if other is None or _rank(row) > _rank(other):
            levels[row.by_tenant] = row
    for levels in chosen.values():
        rows = [*levels.values()]
        row = rows[0]
        yield UnitLimit(
            Scope(row.scope),
            facts.id_of(Scope(row.scope)),
            row.model_glob,
            Dimension(row.dimension),
            min(each.limit_units for each in rows),
            min(each.limit_units if each.burst_units is None else each.burst_units for each in rows),
            row.mode == Mode.SHADOW,
        )


def _rank(row: QuotaPolicy) -> tuple[bool, bool, int, str]:
    return row.scope_id != "", row.tenant_id != PLATFORM, row.created_ms, row.id


def _money(rows: TenantRows, facts: RequestFacts, now_ms: int) -> Iterable[MoneyLimit]:
    chosen: dict[tuple[str, str, str], dict[bool, Budget]] = {}
    for row in rows.budgets:
        if not _applies(row.scope, row.scope_id, facts):
            continue
        levels = chosen.setdefault((row.scope, row.period, row.mode), {})
        other = levels.get(row.by_tenant)
        if other is None or _age(row) > _age(other):
            levels[row.by_tenant] = row
    for levels in chosen.values():
        limits = [
            money_limit(row, facts.id_of(Scope(row.scope)), rows.zone, now_ms) for row in levels.values()
        ]
        yield strictest(limits, now_ms)
    if rows.wallet is not None:
        yield wallet_limit(rows.wallet, rows.read_ms)


def strictest(limits: Sequence[MoneyLimit], now_ms: int) -> MoneyLimit:
    """Limits on one count as one: those that refuse come before those that only alert, then the least counts.
    An override holds until the first of theirs ends. Pure."""
    if len(limits) == 1:
        return limits[0]
    held = [each for each in limits if each.hard] or limits
    ends = [each.override_until_ms for each in held if each.limit_at(now_ms) != each.limit_nano]
    return replace(
        held[0],
        limit_nano=min(each.limit_nano for each in held),
        override_nano=min(each.limit_at(now_ms) for each in held) if ends else None,
        override_until_ms=min(ends, default=0),
        revision=max(each.revision for each in limits),
    )


def _age(row: Budget) -> tuple[bool, int, str]:
    return row.scope_id != "", row.created_ms, row.id


def money_limit(row: Budget, scope_id: str, zone: ZoneInfo, now_ms: int) -> MoneyLimit:
    """A budget's limit for one id of its scope, in the current window."""
    return MoneyLimit(
        Scope(row.scope),
        scope_id,
        row.period,
        window_at(Period(row.period), zone, now_ms),
        row.limit_nano,
        row.hard,
        row.mode == Mode.SHADOW,
        row.override_nano,
        row.override_until_ms or 0,
        row.created_ms,
    )


def wallet_limit(limit_nano: int, read_ms: int) -> MoneyLimit:
    """The wallet as a limit on the whole tenant, as of its reading."""
    return MoneyLimit(Scope.TENANT, "", WALLET, WALLET_WINDOW, limit_nano, revision=read_ms)


def _applies(scope: str, scope_id: str, facts: RequestFacts) -> bool:
    if scope == Scope.TENANT:
        return True
    own = facts.id_of(Scope(scope))
    return own != "" and scope_id in ("", own)


@lru_cache(maxsize=KEYS_KEPT)
def _key(*parts: str) -> str:
    return ":".join(quote(part, safe="~") for part in parts)
