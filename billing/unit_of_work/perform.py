"""Performs operations: checks who may, gives the function its unit of work, commits, and tells others."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import msgspec

from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.units import Change, DryRunEnds, Look, Order, Stores, Terms, check_recorded
from billing.unit_of_work.versions import version_of
from core.actor import acting_as
from core.errors import Refusal, Refused, forbidden
from core.operations import Operation, OperationKind, operation_of
from core.redis import redis_errors
from core.sql.joined import joined_transaction, read_only_transaction

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Performed:
    """An operation that ended well. `version`: of the thing that it read or edited; `untold`: what kept
    others from being told at once of what is committed."""

    answer: Any
    dry_run: bool = False
    version: int | None = None
    untold: Exception | None = None


async def perform(
    stores: Stores, who: OperationActor, operation: Operation, ask: msgspec.Struct, terms: Terms | None = None
) -> Performed:
    """Perform an operation. Raises Refused where the caller may not, or the operation refuses."""
    terms = terms or Terms()
    check_may(who, operation, terms)
    with acting_as(replace(who.author, reason=terms.reason)):
        match operation.kind:
            case OperationKind.LOOK:
                return await _look(stores, who, operation, ask, terms)
            case OperationKind.CHANGE:
                return await _change(stores, who, operation, ask, terms)
            case OperationKind.ORDER:
                return await _order(stores, who, operation, ask, terms)


async def answer_of(
    run: Callable[[Any, Any], Awaitable[Answer]],
    stores: Stores,
    who: OperationActor,
    ask: msgspec.Struct,
    terms: Terms | None = None,
) -> Answer:
    """The answer of an operation, by its function. As `perform`."""
    return cast(Answer, (await perform(stores, who, operation_of(run), ask, terms)).answer)


def check_may(who: OperationActor, operation: Operation, terms: Terms) -> None:
    """Raise Refused where this role may not do it, or a reason is missing. Pure."""
    if who.role not in operation.may:
        may = ", ".join(sorted(operation.may))
        raise forbidden(f"your role, {who.role}, may not do this ({operation.name}): {may} may")
    if operation.reason and who.remote and not terms.reason.strip():
        raise Refused(Refusal("bad_request", "say why: this takes a reason", field="reason"))


async def _look(
    stores: Stores, who: OperationActor, operation: Operation, ask: msgspec.Struct, terms: Terms
) -> Performed:
    async with read_only_transaction(stores.db) as db:
        look = Look(stores, who, terms, operation, db)
        answer = await operation.run(look, ask)
    return Performed(answer, version=look.version)


async def _change(
    stores: Stores, who: OperationActor, operation: Operation, ask: msgspec.Struct, terms: Terms
) -> Performed:
    async with joined_transaction(stores.db, check_recorded, terms.dry_run) as db:
        change = Change(stores, who, terms, operation, db)
        answer = await operation.run(change, ask)
        async with db.session() as session:
            await change.stay(session)
            version = change.version
            if change.thing is not None:
                table, chain, key = change.thing
                version = await version_of(session, chain, table, key)
    if terms.dry_run:
        return Performed(answer, dry_run=True, version=change.version)
    return Performed(answer, version=version, untold=await _tell(change))


async def _tell(change: Change) -> Exception | None:
    """Tell others of a committed change; return what failed first. They learn of it later by themselves."""
    untold: Exception | None = None
    for tell in change.telling:
        try:
            await tell()
        except (redis_errors.RedisError, OSError) as error:
            untold = untold or error
    return untold


async def _order(
    stores: Stores, who: OperationActor, operation: Operation, ask: msgspec.Struct, terms: Terms
) -> Performed:
    try:
        return Performed(await operation.run(Order(stores, who, terms, operation, stores.db), ask))
    except DryRunEnds as ends:
        return Performed(ends.would, dry_run=True)
