"""Refusals in the words of commands: where to go on is another command. Pure."""

from shlex import quote

from core.errors import Refusal, SeeOperation

ARGUMENTS = frozenset({("pools.drain", "pool")})  # what a command takes without an option
# Commands that are called otherwise than their operation.
COMMANDS = {
    "chargeback.schedules": "chargeback schedule list",
    "tags.declare": "chargeback tags declare",
    "tags.list": "chargeback tags list",
    "tags.withdraw": "chargeback tags withdraw",
}


def refused_text(refusal: Refusal) -> str:
    """A refusal as a command says it: what is wrong, and which command helps on. Pure."""
    return refusal.message + (f": see `{_line(refusal.see)}`" if refusal.see is not None else "")


def _line(seen: SeeOperation) -> str:
    called = COMMANDS.get(seen.operation) or seen.operation.replace("_", "-").replace(".", " ")
    words = ["parley", *called.split()]
    for name, value in seen.ask.items():
        words.append(quote(value) if (seen.operation, name) in ARGUMENTS else f"--{name} {quote(value)}")
    return " ".join([*words, "--help"] if seen.help else words)
