"""`parley models`: what models this installation can run, in which versions, and where each serves."""

import asyncio
from collections.abc import Sequence
from typing import Any

import click

from billing.rendering import CommandTerms, all_pages, answered, asks, facts_of, show
from core.configuration.settings import Settings
from core.errors import StartupError
from core.runtime.embedded import ensure_home
from core.sql.database import Database, migrate, require_schema
from core.terminal.terminal import print_json, print_line
from core.terminal.terminal_tables import Table, print_blocks
from engine.cli.formatting import NOTHING
from engine.cli.model_checks import checked
from engine.models.provision import MANIFEST, prepare, read_manifest, record_in, register
from engine.models.registry import ModelRecord, find_version, save_checks
from engine.models.unchanged import changed_files
from engine.operations import model_use, models
from engine.operations.model_facts import ModelFacts, SeenInPool
from engine.operations.model_use import ChangeVersion, UseVersion, VersionsChanged
from engine.operations.models import LimitAnswers, ListModels, RemoveVersion, ShowModel

FINGERPRINT_CHARACTERS = 12
MIB = 1 << 20
BY_DEFAULT: dict[str, dict[str, Any]] = {"tokens": {"required": False, "default": "none"}}


@click.group()
def command() -> None:
    """The models that requests can name, in the versions that pools use.

    \b
        parley models add owner/name@COMMIT     # prepares a version, and serves nothing
        parley models use name VERSION          # its pools switch once workers of it are ready
        parley models rollback name             # and back
        parley models remove name VERSION       # what no pool and no request needs
    """


@command.command()
@click.argument("model")
@click.option("--no-answer", is_flag=True, help="Try no answer here: the first worker proves the version.")
@click.option("--name", default="", help="Of which model it is a version; by default the folder's or id's.")
def add(model: str, no_answer: bool, name: str) -> None:
    """Make MODEL ready: smollm2, a folder (config, tokenizer, template, safetensors) or a hub id.

    Its tokenizer has to load, its template to render a conversation, and an engine to answer with it, where
    this machine has one and room; each check is printed as it passes. What fails is not added.

    A hub id is looked up again: where it has a newer commit, that becomes the newest version.
    owner/name@commit is that commit and no other. No pool uses it yet: `models use` does.
    """
    record = asyncio.run(_add(Settings(), model, name, answers=not no_answer))
    print_line(f"{record.name} {record.version} is ready in {record.folder}")
    print_line(f"no pool uses it yet: parley models use {record.name} {record.version}")


@command.command("list")
@asks(models.list_versions_of, omitted=("limit", "after"))
def list_command(ask: ListModels, how: CommandTerms) -> None:
    """All versions of models, and what each is to the pools: in use, next, earlier, or prepared only."""
    found = all_pages(models.list_versions_of, ask, how)
    if how.as_json:
        for each in found:
            print_json(facts_of(each, True))
        return
    if not found:
        print_line("No model yet: parley models add smollm2")
        return
    table = Table(ruled=True)
    table.columns("name", "version", "state", "pools", "fingerprint", "size", "tokens at most", "proved")
    for each in found:
        table.row(*_row(each))
    print_blocks(table)
    _say_unserved(found)


@command.command("show")
@asks(models.show_version, arguments=("model", "version"))
def show_command(ask: ShowModel, how: CommandTerms) -> None:
    """Show VERSION of MODEL: where it serves, the checks that it passed, and its files.

    Without VERSION the one in use, else the newest.
    """
    detail = answered(models.show_version, ask, how)
    facts = facts_of(detail, how.as_json)
    if not how.as_json:
        facts |= {name: ", ".join(facts[name]) for name in ("pools", "next_in", "earlier_in")}
        facts["checks"] = "; ".join(
            f"{each.name}: {each.seen}, {each.seconds:.1f} s" for each in detail.checks
        )
        facts["files"] = f"{len(detail.files):,}"
        facts["seen"] = "; ".join(_seen_in_words(each) for each in detail.seen)
    show(facts, how.as_json)


@command.command("use")
@asks(model_use.use, arguments=("model", "version"))
def use_command(ask: UseVersion, how: CommandTerms) -> None:
    """Let the pools of MODEL use VERSION: workers of it are made ready first, then new requests go there.

    What runs goes on with its version, whose last worker leaves when nothing needs it any more. --dry-run
    says what it would do, and in what the versions differ. `parley pools list` shows how far it is; to give
    up: `models rollback`. A second `use` meanwhile replaces the first.

    \b
        parley models use smollm2 0.1.0-bf16.2 --dry-run
        parley models use smollm2 0.1.0-bf16.2 --pool eu-1 --cut-off 30m
    """
    _tell(answered(model_use.use, ask, how), how)


@command.command("rollback")
@asks(model_use.rollback, arguments=("model",))
def rollback_command(ask: ChangeVersion, how: CommandTerms) -> None:
    """Go back to the version that each pool of MODEL used before, as `use` does.

    A switch that is under way is given up instead: nobody was served by it yet.
    """
    _tell(answered(model_use.rollback, ask, how), how)


@command.command("remove")
@asks(models.remove, arguments=("model", "version"))
def remove_command(ask: RemoveVersion, how: CommandTerms) -> None:
    """Remove VERSION of MODEL, which no pool uses and no request needs, and delete its files.

    Refused else, with the pools that use it, switch to it or could go back to it, and how many requests began
    on it. A folder that was linked is left as it is.
    """
    removed = answered(models.remove, ask, how)
    if how.as_json:
        show(facts_of(removed, True), True)
        return
    done = "would be removed" if how.dry_run else "is removed"
    print_line(f"{removed.name} {removed.version} {done}: {removed.folder}")


@command.command("verify")
@click.argument("model")
@click.argument("version")
def verify_command(model: str, version: str) -> None:
    """Hash the files of VERSION of MODEL on this machine, and say which are others than when it was added.

    A worker looks at sizes and times at each start; this reads all of them.
    """
    changed = asyncio.run(_verify(Settings(), model, version))
    if changed:
        told = (
            f"{model} {version}: {', '.join(changed)} changed since it was prepared: put that back, or add it"
        )
        raise StartupError(f"{told} again, which makes another version")
    print_line(f"{model} {version} is as it was prepared")


@command.command("answers")
@asks(models.limit_answers_of, arguments=("model",), options=BY_DEFAULT)
def answers_command(ask: LimitAnswers, how: CommandTerms) -> None:
    """Set how long an answer of MODEL gets whose sender does not say, within two seconds.

    It is the least of this and of what tenant, plan and project have (`parley limits`, dimension
    `answer_tokens`). Who asks for more gets more, up to what the model reads.
    """
    done = answered(models.limit_answers_of, ask, how)
    if how.as_json:
        show(facts_of(done, True), True)
        return
    most = None if done.tokens is None else f"at most {done.tokens:,} tokens"
    said = most or "the length that PARLEY_ANSWER_TOKENS says"
    before = f", before {done.before:,}" if done.before else ""
    print_line(f"answers of {done.model} {'would have' if how.dry_run else 'have'} {said}{before}")


def _row(each: ModelFacts) -> Sequence[str]:
    pools = [*each.pools, *(f"{pool} (next)" for pool in each.next_in)]
    pools += [f"{pool} (earlier)" for pool in each.earlier_in]
    size = NOTHING if each.size_bytes is None else f"{-(-each.size_bytes // MIB):,} MiB"
    facts = (each.name, each.version, each.state.value.replace("_", " "), ", ".join(pools) or NOTHING)
    fingerprint = each.fingerprint[:FINGERPRINT_CHARACTERS]
    return (*facts, fingerprint, size, f"{each.max_model_len:,}", each.proved)


def _seen_in_words(each: SeenInPool) -> str:
    told = f"{each.pool}: {each.ready:,} of {each.desired:,} ready"
    if each.requests:
        needs = "1 request needs it" if each.requests == 1 else f"{each.requests:,} requests need it"
        told += f", {needs}, at most until {each.until}"
    return f"{told} ({each.why})" if each.why else told


def _tell(done: VersionsChanged, how: CommandTerms) -> None:
    for each in done.pools:
        if how.as_json:
            print_json({"model": done.model} | facts_of(each, True))
            continue
        print_line(f"pool {each.pool}: {_change_in_words(each, how.dry_run)}")
        if each.differs and each.next:
            print_line(f"  another {', another '.join(each.differs)} than {each.before}")
        if each.note:
            print_line(f"  {each.note}")


def _change_in_words(each: model_use.PoolVersion, dry_run: bool) -> str:
    if each.next is not None:
        ready = "its worker of it is" if each.workers == 1 else f"its {each.workers:,} workers of it are"
        end = "" if each.cut_off_seconds is None else f"; {each.before} ends {each.cut_off_seconds:,} s later"
        switches = "would switch" if dry_run else "switches"
        return f"{switches} to {each.next} once {ready} ready, and serves with {each.before} until then{end}"
    if each.version != each.before:
        return f"{'would use' if dry_run else 'uses'} {each.version} at once, before {each.before}"
    return f"{'would stay' if dry_run else 'stays'} with {each.version}"


def _say_unserved(found: Sequence[ModelFacts]) -> None:
    served = {each.name for each in found if set(each.pools) - set(each.draining)}
    for name in sorted({each.name for each in found} - served):
        create = f"parley pools create POOL --model {name}"
        print_line(f"no pool serves {name}, so its requests are refused: {create}")


async def _verify(settings: Settings, model: str, version: str) -> list[str]:
    db = Database(settings.database_endpoint)
    try:
        await require_schema(db)
        record = await find_version(db, model, version)
    finally:
        await db.close()
    if record is None:
        raise StartupError(f"there is no version {version} of {model}: see `parley models list`")
    if not (record.folder / MANIFEST).is_file():
        raise StartupError(f"{record.folder} is not on this machine, or {model} {version} was removed")
    manifest = await asyncio.to_thread(read_manifest, record.folder)
    return await asyncio.to_thread(changed_files, record.folder, manifest, print_line)


async def _add(settings: Settings, model: str, name: str, *, answers: bool) -> ModelRecord:
    await asyncio.to_thread(ensure_home, settings)
    await migrate(settings.database_endpoint)
    folder = await prepare(model, settings.home, print_line, refresh=True, name=name)
    passed = await checked(record_in(folder, settings), settings, print_line, answers=answers)
    db = Database(settings.database_endpoint)
    try:
        record = await register(db, folder, settings)
        await save_checks(db, record.name, record.version, passed)
        return record
    finally:
        await db.close()
