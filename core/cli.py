"""The `parley` command. It only parses and calls; each package registers its commands as entry points."""

import gc
import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from types import FrameType
from typing import Any, NoReturn

import click

from core.actor import Author, acting_as, process_user
from core.api_address import ApiAddress, only_over_api, over_api
from core.command_lines import COMMAND_LINES
from core.errors import StartupError
from core.files.private_files import UMASK
from core.terminal.safe_text import printable_text
from core.terminal.terminal import never_fail_to_print, print_json, print_line

GROUP = "parley.commands"
AUTHOR_CHARACTERS_MAX = 120
# The libraries whose errors come from Redis and the database: their words are never printed.
STORES = ("redis", "sqlalchemy")


@cache
def registered() -> EntryPoints:
    """All commands. Cached: finding them reads a file of every package, and `--help` asks for each."""
    return entry_points(group=GROUP)


@contextmanager
def _uncollected() -> Generator[None]:
    """Turn the garbage collector off while modules load: what they make stays, and each pass would look at
    all of it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class Commands(click.Group):
    """Loads a subcommand's package only when that subcommand is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All registered commands by name."""
        return sorted(entry.name for entry in registered())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command, None where there is none of that name."""
        for entry in registered().select(name=cmd_name):
            with _uncollected():
                loaded = entry.load()
            assert isinstance(loaded, click.Command), f"{entry.value} is not a click command"
            return only_over_api(loaded, f"parley {cmd_name}") if ctx.params.get("url") else loaded
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, which names similar commands of a group that holds them all, as this one does not."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if meant := get_close_matches(args[0], self.list_commands(ctx), n=1):
                raise click.UsageError(f"{error.message} Did you mean {meant[0]!r}?", error.ctx) from error
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, which imports none: another package's command may have no line."""
        names = self.list_commands(ctx)
        room = formatter.width - 6 - max(map(len, names))
        lines = [(name, click.Command(name, help=COMMAND_LINES.get(name))) for name in names]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(room)) for name, command in lines])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. click's errors quote what was typed, so control characters are taken out."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            for name in ("message", "option_name", "ui_filename"):
                if isinstance(said := getattr(error, name, None), str):
                    setattr(error, name, printable_text(said))
            raise


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="parley")
@click.option("--author", help="Who makes a change, for `parley audit list`. By default the system's user.")
@click.option(
    "--url",
    envvar="PARLEY_API_URL",
    help="Run the command over this console's API, like https://console.example.org.",
)
@click.option(
    "--token-file", help="File with the service token for --url, which only you can read; else PARLEY_TOKEN."
)
@click.pass_context
def parley(context: click.Context, author: str | None, url: str | None, token_file: str | None) -> None:
    """Parley: LLM chat for many tenants on your own GPUs.

    Start everything on this machine with `parley up`; talk to it with `parley chat`.
    """
    if url:
        if author:
            raise StartupError(
                "--author is for this machine: over the API the token's name stands in the record"
            )
        context.with_resource(over_api(ApiAddress(url, token_file)))
    elif token_file:
        raise StartupError("--token-file is for --url: name the console too")
    user = process_user()
    name = f"{author[:AUTHOR_CHARACTERS_MAX]} ({user})" if author else user
    context.with_resource(acting_as(Author(name, "command")))


def main() -> None:
    """Entry point."""
    in_one_line(parley)


def in_one_line(command: click.Command) -> None:
    """Run a command: a StartupError, a wrong setting, or a Redis or database that fails becomes one line on
    stderr and exit code 1; with --json also an object on stdout."""
    never_fail_to_print()
    os.umask(UMASK)
    _hear_interrupts()
    try:
        _warn_of_unknown_settings()
        _require_text(sys.argv)
        command()
    except StartupError as error:
        _end_with(error)
    except Exception as error:
        _end_with_settings(error)
        if type(error).__module__.partition(".")[0] not in STORES:
            raise
        from core.configuration.settings import Settings
        from core.sql.store_errors import (
            store_failure,  # what a command that needs neither store does without
        )

        told = store_failure(error, Settings())
        if told is None:
            raise
        _end_with(told)


def _end_with_settings(error: Exception) -> None:
    """Print the settings that are wrong and exit, where the error is one of settings; else do nothing."""
    if type(error).__name__ != "ValidationError":  # pydantic is imported by what needs it
        return
    from pydantic import ValidationError

    if not isinstance(error, ValidationError) or error.title != "Settings":
        return
    for each in error.errors(include_url=False, include_input=False):
        name = "_".join(str(part) for part in each["loc"]).upper()
        print_line(f"parley: PARLEY_{name}: {each['msg']}", err=True)
    sys.exit(1)


def _end_with(error: Exception) -> NoReturn:
    print_line(f"parley: {error}", err=True)
    if "--json" in sys.argv:
        print_json({"error": str(error), **(error.facts if isinstance(error, StartupError) else {})})
    sys.exit(1)


def _hear_interrupts() -> None:
    """Restore SIGINT in a process that a script started in the background: it inherits SIGINT as ignored and
    could not be ended as the documents say. SIGTERM is as SIGINT, so that a command ends what it began;
    services have handlers of their own. Threads other than the main one leave both as they are."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    heard = signal.getsignal(signal.SIGINT)
    (heard if callable(heard) else signal.default_int_handler)(signal.SIGINT, frame)


def _warn_of_unknown_settings() -> None:
    """Warn of misspelt variables, secrets too, which would be ignored in silence. Asking for the list of
    commands warns of none."""
    asks_for_list = sys.argv[1:] in (["-h"], ["--help"])
    if not asks_for_list and any(name.upper().startswith("PARLEY_") for name in os.environ):
        from core.runtime.environment import unknown_settings_text

        if said := unknown_settings_text(os.environ):
            print_line(f"parley: {said}", err=True)


def _require_text(arguments: list[str]) -> None:
    """Refuse arguments that are no UTF-8: they hold surrogates, which no database and no terminal takes."""
    for each in arguments:
        try:
            each.encode()
        except UnicodeEncodeError:
            raise StartupError(f"an argument is not UTF-8: {each}") from None


if __name__ == "__main__":
    main()
