"""Performs operations: checks who may, gives the function its unit of work, commits, and tells others."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import msgspec
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.audit.log import recorded_rows
from billing.tables.audit import AuditLog
from billing.tables.replies import KeptReply
from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.progress import BegunRun, OperationProgress, ProgressEvent
from billing.unit_of_work.replies import CallKey, RepliedBefore, call_key, claim, keep, reply_of
from billing.unit_of_work.units import Change, DryRunEnds, Look, Order, Stores, Terms, check_recorded
from billing.unit_of_work.versions import version_of
from core.access.processes import CHANGES
from core.actor import acting_as
from core.configuration.settings import Settings
from core.errors import Refusal, Refused, bad_request, forbidden, see
from core.names import is_shown
from core.operations import Operation, OperationKind, Uses, operation_of, without_secrets
from core.redis import redis_errors
from core.sql.database import Database
from core.sql.joined import joined_transaction, read_only_transaction

ONE_LINE = "a reason is one line of text, with no control characters and none that turn it around"
SECOND_FACTOR = "second_factor"
SHOW_A_CODE = "show a code of your second factor first; set one up where you have none"
# What performing any operation uses, beside what the operation declares.
# Of people it locks who asks, and looks who else could approve.
FRAME = Uses(
    writes="audit_head audit_log audit_state kept_reply person membership person_session service_token",
    keys=(CHANGES,),
)

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Performed:
    """An operation that ended well. `version`: of the thing that it read or edited; `untold`: what kept
    others from being told at once of what is committed; `moved_nano`: the money that it moved; `kept`: the
    reply (JSON) that an earlier call of the same key got, in place of an answer; `waits`: nothing is done
    yet, it waits for a second person; `run`: it goes on as this run; `afterwards`: to be called once the
    caller has the answer; of a dry run: `unasked_nano`, how much is moved without being asked for again, and
    `second_person`: "needed" where it would wait for one, "missing" where it would be refused without one."""

    answer: Any
    dry_run: bool = False
    version: int | None = None
    untold: Exception | None = None
    kept: str | None = None
    moved_nano: int = 0
    waits: bool = False
    run: str | None = None
    afterwards: Callable[[], Awaitable[None]] | None = None
    unasked_nano: int = 0
    second_person: str = ""


async def perform(
    stores: Stores,
    who: OperationActor,
    operation: Operation,
    ask: msgspec.Struct,
    terms: Terms | None = None,
    run: BegunRun | None = None,
    told: Callable[[ProgressEvent], None] | None = None,
) -> Performed:
    """Perform an operation. Raises Refused where the caller may not, or the operation refuses. `run`: it goes
    on as this run; `told` hears of its steps."""
    terms = terms or Terms()
    check_may(who, operation, terms)
    with acting_as(replace(who.author, reason=terms.reason)):
        match operation.kind:
            case OperationKind.LOOK:
                return await _look(stores, who, operation, ask, terms)
            case OperationKind.CHANGE:
                return await _change(stores, who, operation, ask, terms)
            case OperationKind.ORDER:
                return await _order(stores, who, operation, ask, terms, run, told)


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
    """Raise Refused where this role may not do it, or a code or a reason is missing. Pure."""
    if who.role not in operation.may:
        may = ", ".join(sorted(operation.may))
        raise forbidden(f"your role, {who.role}, may not do this ({operation.name}): {may} may")
    if operation.writes and not operation.own and not who.second_factor:
        raise Refused(Refusal(SECOND_FACTOR, SHOW_A_CODE, field="totp", see=see("people.enroll_totp")))
    if operation.reason and who.remote and not terms.reason.strip():
        raise Refused(Refusal("bad_request", "say why: this takes a reason", field="reason"))
    if terms.reason.strip() and not is_shown(terms.reason):
        raise bad_request(ONE_LINE, field="reason")


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
    from billing.booking.amount_bounds import AmountBounds
    from billing.unit_of_work.moves import check_moved  # looks do without the rules of money

    recorded: list[AuditLog] = []

    def checked(session: AsyncSession) -> None:
        check_recorded(session)
        recorded.extend(recorded_rows(session))

    call = call_of(stores.settings, who, operation, ask, terms)
    remembered: list[Callable[[], Awaitable[Any]]] = []
    prepared = None if operation.before is None else await operation.before(stores, who, ask)
    try:
        async with AsyncExitStack() as held, joined_transaction(stores.db, checked, terms.dry_run) as db:
            if call is not None and (kept := await _claimed(db, call)) is not None:
                return replied(kept)
            change = Change(stores, who, terms, operation, db, held=held, remembered=remembered)
            change.prepared = prepared
            answer = await operation.run(change, ask)
            check_moved(recorded, change.moved_nano)
            version = await _ended(change, call, answer)
    except Refused:
        for remember in remembered:
            await remember()
        raise
    if terms.dry_run:
        unasked_nano = AmountBounds.of(stores.settings).unasked_nano
        moved_nano = change.moved_nano
        told = without_secrets(answer)
        return Performed(
            told,
            True,
            version=change.version,
            moved_nano=moved_nano,
            unasked_nano=unasked_nano,
            second_person=change.second_person,
        )
    await stream_recorded(stores, recorded)
    untold = await _tell(change)
    return Performed(answer, version=version, untold=untold, moved_nano=change.moved_nano)


async def _ended(change: Change, call: CallKey | None, answer: object) -> int | None:
    """Look once more whether the caller may, and keep the reply; return the version of what was edited."""
    async with change.db.transaction() as session:
        await change.stay(session)
        version = change.version
        if change.thing is not None:
            table, chain, key = change.thing
            version = await version_of(session, chain, table, key)
        if call is not None:
            await keep(session, call, answer, version)
    return version


async def perform_within(
    change: Change, who: OperationActor, operation: Operation, ask: msgspec.Struct, terms: Terms
) -> Change:
    """Perform another change as a part of this one, in somebody else's name: both are committed, or none.
    Returns it. Raises Refused as `perform`, also where they may not any more."""
    terms = replace(terms, dry_run=change.terms.dry_run)
    check_may(who, operation, terms)
    part = Change(change.stores, who, terms, operation, change.db, held=change.held)
    with acting_as(replace(who.author, reason=terms.reason)):
        await operation.run(part, ask)
        async with change.db.transaction() as session:
            await part.stay(session)
    change.moved_nano += part.moved_nano
    change.telling += part.telling
    return part


async def _order(
    stores: Stores,
    who: OperationActor,
    operation: Operation,
    ask: msgspec.Struct,
    terms: Terms,
    run: BegunRun | None,
    told: Callable[[ProgressEvent], None] | None,
) -> Performed:
    call = call_of(stores.settings, who, operation, ask, terms)
    if call is not None and (kept := await _kept(stores, call)) is not None:
        return replied(kept)
    progress = run.progress if run is not None else OperationProgress(told)
    order = Order(stores, who, terms, operation, stores.db, call=call, run=run, progress=progress)
    try:
        answer = await operation.run(order, ask)
    except DryRunEnds as ends:
        return Performed(ends.would, dry_run=True)
    except RepliedBefore as before:
        return replied(before.kept)
    finally:
        await stream_recorded(stores, order.recorded)
    if call is not None and order.recorded and run is None:
        async with stores.db.transaction() as session:
            await keep(session, call, answer, None)
    return Performed(answer)


def replied(kept: KeptReply) -> Performed:
    """What a call gets whose key was used before: the reply of that call. Pure."""
    return Performed(None, version=kept.version, kept=kept.reply, waits=bool(kept.proposal))


def call_of(
    settings: Settings, who: OperationActor, operation: Operation, ask: msgspec.Struct, terms: Terms
) -> CallKey | None:
    """The key of a call; None: it has none, or changes nothing. Pure."""
    if not terms.key or terms.dry_run:
        return None
    return call_key(settings.keyring, who, terms.key, operation, ask, terms.version)


async def _claimed(db: Database, call: CallKey) -> KeptReply | None:
    async with db.transaction() as session:
        return await claim(session, call)


async def _kept(stores: Stores, call: CallKey) -> KeptReply | None:
    """The reply of an order that was given before; its key is claimed once it is given."""
    async with stores.db.session() as session:
        return await reply_of(session, call)


async def _tell(change: Change) -> Exception | None:
    """Tell others of a committed change; return what failed first. They learn of it later by themselves."""
    untold: Exception | None = None
    for tell in change.telling:
        try:
            await tell()
        except (Refused, redis_errors.RedisError, OSError) as error:
            untold = untold or error
    return untold


async def stream_recorded(stores: Stores, rows: Sequence[AuditLog]) -> None:
    """Tell pages that follow changes. They read again what they show where this is lost."""
    if rows:
        from billing.unit_of_work.change_stream import write_changes  # as in `_change`

        with suppress(redis_errors.RedisError, OSError):
            await write_changes(stores.redis, stores.settings, rows)
