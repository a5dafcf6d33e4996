"""`python -m chaos …`: loads, faults and their oracles against real processes on this machine."""

import os

import click

from chaos.bench.against import against
from chaos.bench.api_lists.command import api_lists
from chaos.bench.backup import backup_bench
from chaos.bench.billing import month_view, posting
from chaos.bench.bridge import bridge
from chaos.bench.console import console
from chaos.bench.export import export_bench
from chaos.bench.fairness import fairness
from chaos.bench.forecast import forecast_bench
from chaos.bench.fuzz.api import api_fuzz
from chaos.bench.fuzz.command import fuzz
from chaos.bench.fuzz.scripts import fuzz_scripts
from chaos.bench.interactive import interactive
from chaos.bench.masks import masks
from chaos.bench.move_tenant import move_tenant
from chaos.bench.noisy import noisy
from chaos.bench.page import page
from chaos.bench.portal import portal
from chaos.bench.prefill import prefill
from chaos.bench.queue import queue
from chaos.bench.quotas import quotas
from chaos.bench.roll import roll
from chaos.bench.safety.command import safety
from chaos.bench.seams import seams
from chaos.bench.session.cancel import cancel
from chaos.bench.session.capacity import sessions
from chaos.bench.session.drain import drain
from chaos.bench.session.relay import relay
from chaos.bench.session.resume import resume
from chaos.bench.session.wire_bytes import wire
from chaos.bench.stream import stream
from chaos.bench.tampering import tampering
from chaos.injected.switches import hand_on, install
from chaos.run import run


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def chaos() -> None:
    """Load and faults against a Parley on this machine. Nothing here is aimed at another host."""
    install()
    hand_on(os.environ)


@chaos.group()
def bench() -> None:
    """Benchmarks; each prints its figures, and --json for scripts."""


bench.add_command(against)
bench.add_command(stream)
bench.add_command(queue)
bench.add_command(fairness)
bench.add_command(export_bench)
bench.add_command(forecast_bench)
bench.add_command(interactive)
bench.add_command(noisy)
bench.add_command(move_tenant)
bench.add_command(roll)
bench.add_command(masks)
bench.add_command(prefill)
bench.add_command(seams)
bench.add_command(posting)
bench.add_command(month_view)
bench.add_command(bridge)
bench.add_command(tampering)
bench.add_command(backup_bench)
bench.add_command(quotas)
bench.add_command(safety)
bench.add_command(relay)
bench.add_command(sessions)
bench.add_command(wire)
bench.add_command(resume)
bench.add_command(cancel)
bench.add_command(drain)
bench.add_command(page)
bench.add_command(console)
bench.add_command(portal)
bench.add_command(fuzz)
bench.add_command(api_fuzz)
bench.add_command(api_lists)
bench.add_command(fuzz_scripts)
chaos.add_command(run)

if __name__ == "__main__":
    chaos()
