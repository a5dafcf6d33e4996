"""Fills an installation with example tenants and what they used."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from admin.demo import TENANT
from admin.examples.sending import ExampleSender, cost_of, require_biller
from admin.examples.settings import ExampleOwner, ExampleSettings
from admin.examples.tenants import BudgetUse, ExampleTenant, example_tenants
from admin.examples.traffic import ExampleDays, ExampleRequest, example_requests
from billing.api import Period, PinnedPrices, Stores, list_tenants, pinned_prices, window_at
from core.errors import Refused, StartupError
from engine.api import ModelRecord, list_models, pinned_policy, policy_for

Prices = Mapping[tuple[str, str], PinnedPrices]
Say = Callable[[str], None]

# Beside the installation's own models, so that there is something to compare; nothing runs them.
EXAMPLE_MODELS = ("qwen3-8b", "llama-3.3-70b")
CONTEXT_MAX = 8_192
USED = {BudgetUse.MOST: 0.82, BudgetUse.ALL: 1.01}
FRESH = "a fresh PARLEY_HOME (`PARLEY_HOME=~/parley-example parley up`) is an installation without them"


@dataclass(frozen=True)
class SeedOrder:
    """What to make. `requests`: a day, of all tenants together; `among_real`: also where there are other
    tenants."""

    days: int
    tenants: int
    requests: int
    seed: int
    among_real: bool = False


@dataclass(frozen=True)
class SeededExamples:
    """What was made, by tenants' names."""

    requests: Mapping[str, int]
    cost_nano: Mapping[str, int]


async def seed_examples(stores: Stores, order: SeedOrder, say: Say, progress: Say) -> SeededExamples:
    """Make the tenants, send their requests, and wait until they are booked. Raises StartupError where there
    are other tenants or these already, or where no biller runs: then nothing is made."""
    tenants = example_tenants(order.tenants)
    require_free(order, [each.name for each in await list_tenants(stores.db)])
    await require_biller(stores.redis, stores.settings.pool)
    settings, end_ms = ExampleSettings(stores), stores.now_ms()
    await settings.make_plans()
    owners = {each.name: await settings.make_tenant(each) for each in tenants}
    say(f"{len(tenants)} tenants are made, with {sum(len(each.keys) for each in tenants)} keys")
    known = {each.name: each for each in await list_models(stores.db)}
    prices = await _prices(stores, owners, [*known, *EXAMPLE_MODELS])
    requests = example_requests(tenants, _days_of(order, known, prices, end_ms))
    spent = Counter[str]()
    for each in requests:
        spent[each.tenant] += cost_of(each.counts, prices[each.tenant, each.model])
    for each in tenants:
        await settings.top_up(each, owners[each.name], spent[each.name])
    sender = ExampleSender(
        stores.db,
        stores.redis,
        stores.settings,
        owners,
        prices,
        {name: each.fingerprint for name, each in known.items()},
        await _policies(stores, owners),
    )
    await sender.send(requests, lambda done: progress(f"{done:,} of {len(requests):,} requests are booked"))
    say(f"{len(requests):,} requests are booked")
    for each in tenants:
        await settings.revoke_keys(each, owners[each.name])
        await _set_budgets(settings, each, owners[each.name], _spending(each.name, requests, prices), end_ms)
    say("budgets are set, and old keys revoked")
    counted = Counter(each.tenant for each in requests)
    return SeededExamples({name: counted[name] for name in owners}, {name: spent[name] for name in owners})


def require_free(order: SeedOrder, names: Iterable[str]) -> None:
    """Raise StartupError where, beside tenants of these names, the examples are not to be made. Pure."""
    there = set(names)
    if again := sorted(there & {each.name for each in example_tenants(order.tenants)}):
        raise StartupError(f"there already are tenants {', '.join(again)}: nothing was added, and {FRESH}")
    if (others := sorted(there - {TENANT})) and not order.among_real:
        raise StartupError(
            f"this installation has tenants of its own ({', '.join(others[:3])}), and the examples would "
            f"stay in its books for ever: {FRESH}, or say --yes"
        )


def _days_of(order: SeedOrder, known: Mapping[str, ModelRecord], prices: Prices, end_ms: int) -> ExampleDays:
    """Only models that have a price for all tenants; prompts that fit the installation's own models. Pure."""
    models = list(dict.fromkeys(model for _, model in prices))
    context = min([CONTEXT_MAX, *(each.max_model_len for each in known.values())])
    return ExampleDays(order.days, order.requests, order.seed, end_ms, models, context)


def _spending(tenant: str, requests: Sequence[ExampleRequest], prices: Prices) -> list[tuple[int, int]]:
    """When a tenant's requests were accepted, and what each costs. Pure."""
    return [
        (each.accepted_ms, cost_of(each.counts, prices[each.tenant, each.model]))
        for each in requests
        if each.tenant == tenant
    ]


async def _prices(stores: Stores, owners: Mapping[str, ExampleOwner], models: Iterable[str]) -> Prices:
    """Prices of those models that have some for all tenants. Raises StartupError where none has."""
    prices: dict[tuple[str, str], PinnedPrices] = {}
    for model in dict.fromkeys(models):
        try:
            prices |= {
                (name, model): await pinned_prices(stores.db, owner.tenant, model)
                for name, owner in owners.items()
            }
        except Refused:
            continue  # not served here
    if not prices:
        raise StartupError("no model has a price: see `parley prices import --help`")
    return prices


async def _policies(stores: Stores, owners: Mapping[str, ExampleOwner]) -> Mapping[tuple[str, str], str]:
    """Hashes of the policies that hold, by tenant and project."""
    return {
        (name, project): pinned_policy(await policy_for(stores.db, owner.tenant, id)).hash
        for name, owner in owners.items()
        for project, id in owner.projects.items()
    }


async def _set_budgets(
    settings: ExampleSettings,
    tenant: ExampleTenant,
    owner: ExampleOwner,
    spending: Sequence[tuple[int, int]],
    end_ms: int,
) -> None:
    if tenant.user_day_cents:
        await settings.set_user_budget(owner, tenant.user_day_cents)
    if tenant.budget is not None:
        period, spent_nano = budget_period(spending, ZoneInfo(tenant.zone), end_ms)
        await settings.set_budget(owner, period, spent_nano / USED[tenant.budget])


def budget_period(spending: Sequence[tuple[int, int]], zone: ZoneInfo, end_ms: int) -> tuple[str, int]:
    """The month and what was spent in it; for ever and all, where the month has only begun. Pure."""
    window = window_at(Period.MONTH, zone, end_ms)
    of_month = sum(nano for at_ms, nano in spending if window.start_ms <= at_ms < window.end_ms)
    every = sum(nano for _, nano in spending)
    return ("month", of_month) if of_month else ("lifetime", every)
