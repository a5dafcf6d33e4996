"""`python -m scripts.mutations`: does a test notice each small fault?"""

import json
import os
from pathlib import Path

import click

from scripts.mutations import fresh, reached
from scripts.mutations.entries import LISTED, BadEntryError, load, sampled, unappliable
from scripts.mutations.trials import Verdict, all_tried, copies, red_already
from scripts.working_tree import commit

ROOT = Path(__file__).parent.parent.parent
NO_COMMIT = "0"
JOBS = os.cpu_count() or 1
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
jobs_option = click.option("--jobs", default=JOBS, show_default=True, type=click.IntRange(1, 64))


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def mutations() -> None:
    """Small faults, planted one at a time in a copy of the tree; the tests named for each must fail.

    \b
    python -m scripts.mutations run                  the whole list, tests/mutations.yaml
    python -m scripts.mutations run --sample 12      as CI does, drawn by the commit
    python -m scripts.mutations run --file core/names.py
    python -m scripts.mutations measure              which test reaches which line (runs the suite)
    python -m scripts.mutations fresh --count 60     new faults, tried with the tests that reach them
    """


@mutations.command()
@click.option("--sample", type=click.IntRange(1), help="Only so many, drawn by the seed.")
@click.option("--seed", help="By default the commit.")
@click.option("--file", "only", help="Only those of files whose path begins so.")
@click.option("--check", is_flag=True, help="Only whether each applies and its tests exist.")
@jobs_option
@json_option
def run(
    sample: int | None, seed: str | None, only: str | None, check: bool, jobs: int, as_json: bool
) -> None:
    """Try the committed list. Exit code 1 where a fault is not noticed or an entry no longer applies."""
    try:
        entries = [each for each in load(ROOT) if each.file.startswith(only or "")]
    except BadEntryError as error:
        raise click.ClickException(f"{LISTED}: {error}") from error
    if stale := unappliable(ROOT, entries):
        raise click.ClickException("\n".join(stale))
    chosen = sampled(entries, sample, seed or commit(ROOT) or NO_COMMIT) if sample else entries
    if check or not chosen:
        click.echo(f"{len(chosen)} entries apply" if chosen else "no such entry")
        return
    with copies(ROOT, min(jobs, len(chosen))) as made:
        click.echo(f"{len(chosen)} faults: their tests run once as the code is", err=True)
        if said := red_already(made[0], chosen):
            raise click.ClickException(f"red with no fault planted:\n{said}")
        verdicts = all_tried(made, chosen, tell)
    finish(verdicts, as_json)


@mutations.command()
@click.argument("tests", nargs=-1)
def measure(tests: tuple[str, ...]) -> None:
    """Run the tests (by default all), keep which reaches which line, print coverage by package."""
    raise SystemExit(reached.measure(ROOT, tests))


@mutations.command(name="fresh")
@click.option("--count", default=60, show_default=True, type=click.IntRange(1))
@click.option("--seed", help="By default the commit.")
@click.option("--file", "only", default="", help="Only those of files whose path begins so.")
@jobs_option
@json_option
def fresh_command(count: int, seed: str | None, only: str, jobs: int, as_json: bool) -> None:
    """Draw faults over all lines of Python and Lua that tests reach, and try each with those tests."""
    known = reached.load(ROOT)
    if known is None:
        raise click.ClickException("first: python -m scripts.mutations measure")
    drawn = fresh.drawn(ROOT, known, count, seed or commit(ROOT) or NO_COMMIT, only)
    if not drawn:
        raise click.ClickException(f"no line to change in files that begin with {only}")
    with copies(ROOT, min(jobs, len(drawn))) as made:
        verdicts = all_tried(made, drawn, tell)
    finish(verdicts, as_json)


def tell(verdict: Verdict) -> None:
    """One line as it falls."""
    word = "error   " if verdict.error else "noticed " if verdict.noticed else "SURVIVED"
    click.echo(f"{word} {verdict.seconds:6.1f} s  {verdict.mutation.shown}", err=True)


def finish(verdicts: list[Verdict], as_json: bool) -> None:
    """Print what was seen and end: 1 where something survived or could not be tried."""
    survived = [each for each in verdicts if not each.noticed and not each.error]
    errors = [each for each in verdicts if each.error]
    if as_json:
        facts = [
            each.mutation._asdict() | {"noticed": each.noticed, "seconds": each.seconds} for each in verdicts
        ]
        click.echo(json.dumps({"tried": len(verdicts), "survived": len(survived), "mutations": facts}))
    else:
        click.echo(f"{len(verdicts)} tried, {len(verdicts) - len(survived) - len(errors)} noticed")
    for each in survived:
        click.echo(f"\nSURVIVED {each.mutation.file}\n- {each.mutation.was}\n+ {each.mutation.now}", err=True)
        click.echo(f"  tests: {' '.join(each.mutation.fails)}", err=True)
    for each in errors:
        click.echo(f"\nNOT TRIED {each.mutation.shown}\n{each.error}", err=True)
    raise SystemExit(1 if survived or errors else 0)


if __name__ == "__main__":
    mutations()
