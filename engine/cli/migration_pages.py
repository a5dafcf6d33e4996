"""What commands print of a move: what it would do, and what became of it."""

from collections.abc import Iterator

import msgspec

from core.terminal.terminal import print_json, print_line
from engine.operations.migration_preview import MigrationPreview
from engine.operations.moving_tenants import MovedTenant

UNKNOWN = "nobody has said it"


def show_preview(answer: msgspec.Struct, preview: MigrationPreview | None, as_json: bool) -> None:
    """Print what a move would do."""
    if as_json:
        print_json(answer)
    elif preview is not None:
        for line in preview_lines(preview):
            print_line(line)


def preview_lines(told: MigrationPreview) -> Iterator[str]:
    """The same in lines. Pure."""
    yield f"running answers that move: {told.streams:,} of {told.streams_of:,}, each with a short pause"
    yield f"others that move: {told.waiting:,} of {told.waiting_of:,}; they keep their age"
    room = UNKNOWN if told.free is None else f"{told.free:,} of {told.slots:,} slots are free"
    waits = f"; {told.without_slot:,} would wait for one" if told.without_slot else ""
    yield f"room there: {room}{waits}; {told.waiting_there:,} wait there now"
    if told.kv is not None and told.kv_after is not None:
        yield f"KV memory there: {told.kv:.0%}, then about {told.kv_after:.0%}"
    yield f"computed again, not billed: {told.recomputed_tokens:,} tokens"
    if told.price:
        yield f"price: {told.price}"
    for each in told.stay:
        yield f"{each.id} would stay: {each.message}"
    if told.stay_total > len(told.stay):
        yield f"and {told.stay_total - len(told.stay):,} more would stay"


def moved_line(done: MovedTenant) -> str:
    """What became of a move, in a line. Pure."""
    pause = (
        f", longest pause {done.longest_pause_ms / 1000:.2f} s" if done.longest_pause_ms is not None else ""
    )
    streams = f"{done.streams_moved:,} of {done.streams_to_move:,} running answers among them"
    return (
        f"{done.tenant} is served in pool {done.to}: {done.moved:,} requests are moved, {streams}; "
        f"{done.lost:,} lost, {done.doubled:,} doubled{pause}"
    )
