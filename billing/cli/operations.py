"""Renders operations as commands: options come from the struct, answers are printed as facts."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeVar

import click
import msgspec

from billing.cli.operation_options import ask_of, parameters_of
from billing.cli.performers import LocalPerformer, Performer, opened_client
from billing.money import to_display
from billing.unit_of_work.listing import ListQuestion
from billing.unit_of_work.progress import ProgressEvent
from billing.unit_of_work.units import Stores, Terms
from core.api_address import api_address, require_local, runs_over_api
from core.configuration.settings import Settings
from core.errors import Refusal, Refused, StartupError
from core.operations import LISTED_MAX, ListedPage, MoneyAmount, Operation, operation_of, shown_secrets
from core.redis import redis_errors
from core.redis.client import RedisClient, connect
from core.sql.checked import CheckedDatabase
from core.sql.store_errors import redis_failure
from core.terminal.refused_text import refused_text
from core.terminal.terminal import print_line, progress

Ask = TypeVar("Ask", bound=msgspec.Struct)
Answer = TypeVar("Answer")
Command = Callable[..., None]

REASON: dict[str, Any] = {"default": "", "help": "Why; kept in the audit log."}
REASON_NEEDED: dict[str, Any] = {"required": True, "help": REASON["help"]}


@dataclass(frozen=True)
class CommandTerms:
    """How a command was typed: what every command of an operation takes beside its own options."""

    as_json: bool
    dry_run: bool = False
    reason: str = ""

    @property
    def terms(self) -> Terms:
        """The operation's terms."""
        return Terms(reason=self.reason, dry_run=self.dry_run)


def asks(
    run: Callable[[Any, Any], Awaitable[Any]],
    *,
    arguments: Sequence[str] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
    omitted: Sequence[str] = (),
) -> Callable[[Command], Command]:
    """Give a command the options of an operation: it is called with the filled struct and CommandTerms, and
    with those options that stand below it. `omitted`: fields that the command fills itself."""
    declared = operation_of(run)
    params = parameters_of(declared, arguments, options or {}, omitted)
    fields = {each.name for each in params}

    def wrap(command: Command) -> Command:
        @runs_over_api
        @wraps(command)
        def called(as_json: bool, dry_run: bool = False, **given: Any) -> None:
            reason = "" if "reason" in fields else given.pop("reason", "")  # else of what is asked
            ask = ask_of(declared, given)
            rest = {name: value for name, value in given.items() if name not in fields}
            command(ask, CommandTerms(as_json, dry_run, reason), **rest)

        decorated: Any = called
        earlier = list(getattr(called, "__click_params__", []))
        shared = [click.Option(["--json", "as_json"], is_flag=True, help="Print JSON, one object a line.")]
        if declared.writes:
            shared += [
                click.Option(["--reason"], **(options or {}).get("reason", REASON)),
                click.Option(["--dry-run"], is_flag=True, help="Show what it would do, and do nothing."),
            ]
        decorated.__click_params__ = [*reversed(shared), *earlier, *reversed(params)]
        return decorated

    return wrap


def answered(run: Callable[[Any, Ask], Awaitable[Answer]], ask: Ask, how: CommandTerms) -> Answer:
    """Perform an operation as the author of this command, and return its answer. A refusal becomes one line
    and exit code 1."""
    return with_performer(lambda performer: performed(run, performer, ask, how))


def all_pages(
    run: Callable[[Any, Any], Awaitable[ListedPage[Answer]]], question: ListQuestion, how: CommandTerms
) -> list[Answer]:
    """All things of a list, page by page, as `answered`."""
    return with_performer(lambda performer: all_read(run, performer, question, how))


async def all_read(
    run: Callable[[Any, Any], Awaitable[ListedPage[Answer]]],
    performer: Performer,
    question: ListQuestion,
    how: CommandTerms,
) -> list[Answer]:
    """All things of a list, page by page, for a command that performs several operations."""
    things: list[Answer] = []
    after = ""
    while True:
        ask = msgspec.structs.replace(question, limit=LISTED_MAX, after=after)
        page = await performed(run, performer, ask, how)
        things += page.items
        if page.next is None:
            return things
        after = page.next


def with_performer(action: Callable[[Performer], Awaitable[Answer]]) -> Answer:
    """Run something that performs operations, over the API where `parley --url` names one, else on the
    configured stores. A refusal becomes one line and exit code 1."""
    address = api_address()
    if address is None:
        return in_stores(lambda stores: action(LocalPerformer(stores)))

    async def run() -> Answer:
        performer = opened_client(address)
        async with performer.client:
            return await action(performer)

    try:
        return asyncio.run(run())
    except Refused as refused:
        raise StartupError(refused_text(refused.refusal)) from refused


def in_stores(action: Callable[[Stores], Awaitable[Answer]]) -> Answer:
    """Run something on the configured stores. A refusal becomes one line and exit code 1."""
    require_local()
    settings = Settings()

    async def run() -> Answer:
        async with opened_stores(settings) as stores:
            return await action(stores)

    try:
        return asyncio.run(run())
    except Refused as refused:
        raise StartupError(refused_text(refused.refusal)) from refused
    except redis_errors.RedisError as error:
        raise redis_failure(error, settings) from error


@asynccontextmanager
async def opened_stores(settings: Settings) -> AsyncGenerator[Stores]:
    """The stores of one command. Each is connected to when it is needed first."""
    async with AsyncExitStack() as stack:
        db = CheckedDatabase(settings.database_endpoint)
        stack.push_async_callback(db.close)

        def connected() -> RedisClient:
            redis = connect(settings)
            stack.push_async_callback(redis.aclose)
            return redis

        yield Stores(settings, db, connected)


async def performed(
    run: Callable[[Any, Ask], Awaitable[Answer]], performer: Performer, ask: Ask, how: CommandTerms
) -> Answer:
    """Perform an operation, for a command that performs several."""
    declared = operation_of(run)
    with steps_shown(declared) as told:
        try:
            done = await performer.perform(declared, ask, how.terms, told)
        except Refused as refused:
            raise Refused(as_typed(refused.refusal, ask)) from refused
    if done.waits:
        raise StartupError(str(done.answer))
    if done.dry_run:
        print_line("nothing is done: this was a dry run", err=True)
    return done.answer


def as_typed(refusal: Refusal, ask: msgspec.Struct) -> Refusal:
    """A refusal in the words of who typed: the tenant as they named it, and the option of a reason. Pure."""
    if refusal.field == "reason" and "reason" not in ask.__struct_fields__:
        refusal = replace(refusal, message=f"{refusal.message} (--reason)")
    tenant, seen = getattr(ask, "tenant", None), refusal.see
    if seen is None or not tenant or "tenant" not in seen.ask:
        return refusal
    return replace(refusal, see=replace(seen, ask={**seen.ask, "tenant": tenant}))


@contextmanager
def steps_shown(declared: Operation) -> Generator[Callable[[ProgressEvent], None] | None]:
    """Show on a terminal how far an operation is that takes long, until it ends."""
    if not declared.long:
        yield None
        return
    try:
        yield lambda event: progress(step_line(event))
    finally:
        progress("")


def step_line(event: ProgressEvent) -> str:
    """A step in words. Pure."""
    return f"{event.done}{'' if event.of is None else f' of {event.of}'}: {event.what}"


def facts_of(answer: msgspec.Struct, as_json: bool) -> dict[str, Any]:
    """The facts of an answer as commands print them: money as `x_nano` in JSON and in words else, a secret
    as it is. Pure."""
    facts: dict[str, Any] = {}
    for field in msgspec.structs.fields(answer):
        name, value = field.encode_name, getattr(answer, field.name)
        match value:
            case MoneyAmount():
                facts |= {f"{name}_nano": value.value} if as_json else {name: to_display(value.value)}
            case msgspec.UNSET:
                pass
            case _:
                facts[name] = msgspec.to_builtins(value, enc_hook=shown_secrets)
    return facts
