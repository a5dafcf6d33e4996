"""`parley pools`, with the move of a tenant, which the engine does."""

from billing.rendering import CommandTerms, answered, asks
from billing.shared_commands import pools_command as command
from core.errors import StartupError
from core.terminal.terminal import print_json, print_line
from engine.cli.migration_pages import moved_line, show_preview
from engine.operations.moving_tenants import MoveTenant, move_tenant

OPTIONS = {"tenant": {"help": "Who moves (name or id)."}}


@command.command("move")
@asks(move_tenant, arguments=("pool",), options=OPTIONS)
def move(ask: MoveTenant, how: CommandTerms) -> None:
    """Move a tenant out of POOL, with its live answers, to another pool of the same model.

    From then on its new requests go there; its open ones follow, at the token they had reached: readers see a
    pause. Interrupted, the routing stands, and the same command again moves what is left. --dry-run says
    first what goes, what stays and why.
    """
    done = answered(move_tenant, ask, how)
    if how.dry_run:
        show_preview(done, done.preview, how.as_json)
        return
    if how.as_json:
        print_json(done)
    else:
        print_line(moved_line(done))
    if done.newcomers:
        raise StartupError(f"new requests still came to pool {done.pool} after a minute: do it again")
    if done.stay:
        first, stay = done.stay[0], f"{len(done.stay)} stay in pool {done.pool} and end there"
        raise StartupError(f"{stay}: {first.id}: {first.message}")
