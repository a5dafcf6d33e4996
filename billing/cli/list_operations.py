"""`parley operations`: what may be done here, by whom, and over which route."""

from typing import Any

import click
from click.formatting import wrap_text

from billing.cli.run_command import json_option, show_table
from core.api_address import runs_over_api
from core.operations import Operation, Role, registered
from core.terminal.terminal import print_lines

WIDTH = 80


@click.command("operations")
@click.option("--role", type=click.Choice([each.value for each in Role]), help="Only what this role may do.")
@json_option
@runs_over_api
def operations_command(role: str | None, as_json: bool) -> None:
    """List all operations: routes of the API and what commands do, with the roles that may."""
    every = [each for each in registered().values() if role is None or role in each.may]
    if as_json:
        show_table([_facts(each) for each in every], as_json, "")
        return
    for each in every:
        print_lines(_text(each))


def _text(declared: Operation) -> str:
    """An operation in lines that a narrow terminal holds. Pure."""
    roles = ", ".join(role.value for role in Role if role in declared.may)
    does = wrap_text(declared.sentence, WIDTH, "    ", "    ")
    return f"{declared.name}  {declared.method} /api{declared.path}\n{does}\n    {roles}"


def _facts(declared: Operation) -> dict[str, Any]:
    roles = [role.value for role in Role if role in declared.may]
    return {
        "operation": declared.name,
        "method": declared.method,
        "path": declared.path,
        "roles": roles,
        "does": declared.sentence,
        "kind": declared.kind.value,
        "audit": list(declared.audit),
        "reason": declared.reason,
        "edits": declared.edits,
        "reads": declared.uses.reads.split(),
        "writes": declared.uses.writes.split(),
        "keys": list(declared.uses.keys),
    }
