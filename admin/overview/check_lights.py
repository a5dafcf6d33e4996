"""The books as lights: what the last comparison said of each check. Pure."""

from collections.abc import Mapping, Sequence
from shlex import quote

from admin.overview.answer import OverviewLight, OverviewLightState
from admin.overview.words import duration
from billing.api import MEANING, Check, ComparisonState, to_display
from billing.pages import LastRun, StoredCheck, StoredComparison

STALE_MS = 10 * 60_000  # a biller compares each minute
NEVER = "no biller has compared the books yet"
NOTHING = "there is nothing to compare yet"
PROVIDER = OverviewLight(
    "R3", "Payments = our books", OverviewLightState.UNKNOWN, "", None, "no payment provider is connected", ""
)
OF_POOLS = (Check.R5, Check.R6)


def lights_of(last: LastRun | None, now_ms: int, names: Mapping[str, str]) -> list[OverviewLight]:
    """One for each check, in their order; R3, of which nothing is compared, behind R2."""
    age_ms = max(0, now_ms - last.at_ms) if last else None
    found = last.checks if last else {}
    lights = [_light(check, found.get(check.value), age_ms, names) for check in Check]
    return [*lights[:2], PROVIDER, *lights[2:]]


def _light(
    check: Check, found: StoredCheck | None, age_ms: int | None, names: Mapping[str, str]
) -> OverviewLight:
    title = MEANING[check][:1].upper() + MEANING[check][1:]
    if found is None or age_ms is None:
        return OverviewLight(
            check.value, title, OverviewLightState.UNKNOWN, "", None, NEVER, _command(check, "")
        )
    worst = found.unequal[0] if found.unequal else None
    whose = names.get(worst.tenant, worst.tenant) if worst else ""
    state, why = _judged(found, worst, whose, age_ms)
    difference = _amount(worst) if worst and worst.state is ComparisonState.DIFFERS else "0"
    return OverviewLight(check.value, title, state, difference, age_ms // 1000, why, _command(check, whose))


def _judged(
    found: StoredCheck, worst: StoredComparison | None, whose: str, age_ms: int
) -> tuple[OverviewLightState, str]:
    """A difference stays one, however long ago it was found; that all was equal says nothing later."""
    of = f"{whose}: {worst.subject}" if worst and whose else worst.subject if worst else ""
    if worst and worst.state is ComparisonState.DIFFERS:
        why = f" ({worst.why})" if worst.why else ""
        more = f", and {found.differing - 1:,} more" if found.differing > 1 else ""
        return OverviewLightState.DIFFERS, f"{of}{why}, for {duration(worst.age_ms + age_ms)}{more}"
    if not found.compared:
        return OverviewLightState.UNKNOWN, NOTHING
    if age_ms > STALE_MS:
        return OverviewLightState.UNKNOWN, f"nothing was compared for {duration(age_ms)}"
    return (OverviewLightState.UNKNOWN, f"{of}: {worst.why}") if worst else (OverviewLightState.EQUAL, "")


def _amount(differing: StoredComparison) -> str:
    number = int(differing.difference)
    return to_display(number) if differing.unit == "nano" else f"{number:,} {differing.unit}"


def _command(check: Check, whose: str) -> str:
    of = f" --tenant {quote(whose)}" if whose and check not in OF_POOLS else ""
    return f"parley reconcile --check {check.value}{of}"


def lights_sentence(lights: Sequence[OverviewLight]) -> str:
    """What the books say, in a sentence."""
    compared = [each for each in lights if each.age_seconds is not None]
    if not compared:
        return "The books were not compared yet."
    age_ms = 1000 * (compared[0].age_seconds or 0)
    if age_ms > STALE_MS:
        return f"The books were last compared {duration(age_ms)} ago."
    differing = [each.check for each in compared if each.state is OverviewLightState.DIFFERS]
    if differing:
        return f"The books differ ({', '.join(differing)})."
    waiting = [
        each.check for each in compared if each.state is OverviewLightState.UNKNOWN and each.why != NOTHING
    ]
    if waiting:
        return f"The books agree; {', '.join(waiting)} cannot be judged yet."
    return "The books agree to the nano."
