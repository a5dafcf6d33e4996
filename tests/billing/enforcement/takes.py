"""Money that an operation takes out of a wallet, and what happens between its take and its commit."""

from collections.abc import Awaitable, Callable

from billing.operations import wallets
from billing.operations.wallets import PayOut, TakenMoney
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.perform import answer_of
from billing.unit_of_work.units import Stores, Terms
from core.actor import Author
from core.operations import MoneyAmount, Role
from tests.billing.quota.quota_ledger import QuotaLedger

Meanwhile = Callable[[], Awaitable[None]]


async def pay_out(
    books: QuotaLedger, nano: int = 1_000, key: str = "c", meanwhile: Meanwhile | None = None
) -> TakenMoney:
    """Pay so much out. `meanwhile`: called when Redis has it taken, and nothing is committed."""

    async def still(_: object) -> None:
        if meanwhile is not None:
            await meanwhile()

    who = OperationActor(Author("Ann", "command"), Role.OWNER, still=still)
    stores = Stores(books.settings, books.db, lambda: books.redis)
    ask = PayOut(tenant=books.tenant, amount=MoneyAmount.of(nano), key=key)
    return await answer_of(wallets.pay_out, stores, who, ask, Terms(reason="r"))
