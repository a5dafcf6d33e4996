"""The books as eight lights: one that cannot be judged is unknown, and says why."""

from admin.overview.check_lights import lights_of, lights_sentence
from billing.reconciliation.comparison import Check, Comparison
from billing.reconciliation.last_run import LastRun, checks_of
from tests.admin.overview.platforms import NAMES, NOW_MS, compared


def shown(result: LastRun | None) -> dict[str, tuple[str, str, int | None, str]]:
    """State, difference, age and reason of each light."""
    lights = lights_of(result, NOW_MS, NAMES)
    return {each.check: (each.state, each.difference, each.age_seconds, each.why) for each in lights}


def sentence(result: LastRun | None) -> str:
    """What the books say."""
    return lights_sentence(lights_of(result, NOW_MS, NAMES))


def test_eight_lights_agree() -> None:
    """R3 has nobody to compare with."""
    lights = shown(compared())
    assert list(lights) == ["R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8"]
    assert lights.pop("R3") == ("unknown", "", None, "no payment provider is connected")
    assert set(lights.values()) == {("equal", "0", 40, "")}
    assert sentence(compared()) == "The books agree to the nano."


def test_a_difference_says_of_what_and_for_how_long() -> None:
    """The oldest one; how many more there are."""
    old = Comparison(Check.R4, "t1", "cost", "nano", 0, 20_000_000, "a detail", age_ms=180_000)
    new = Comparison(Check.R4, "t2", "input", "tokens", 7, 5, age_ms=1_000)
    found = shown(compared(old, new))
    assert found["R4"] == ("differs", "$0.02", 40, "acme: cost (a detail), for 4 min, and 1 more")
    assert sentence(compared(old, new)) == "The books differ (R4)."
    (light,) = [each for each in lights_of(compared(old), NOW_MS, {"t1": "a b"}) if each.check == "R4"]
    assert light.command == "parley reconcile --check R4 --tenant 'a b'"


def test_what_waits_or_was_never_compared_is_unknown() -> None:
    """And so is what a biller compared long ago: old lights do not shine."""
    waits = Comparison(Check.R4, "t1", "cost", "nano", 0, 5, waiting="not drained: 3 unread")
    assert shown(compared(waits))["R4"] == ("unknown", "0", 40, "acme: cost: not drained: 3 unread")
    assert sentence(compared(waits)) == "The books agree; R4 cannot be judged yet."
    assert shown(LastRun(NOW_MS, checks_of([])))["R6"] == (
        "unknown",
        "0",
        0,
        "there is nothing to compare yet",
    )
    assert shown(compared(age_ms=720_000))["R1"] == ("unknown", "0", 720, "nothing was compared for 12 min")
    assert sentence(compared(age_ms=720_000)) == "The books were last compared 12 min ago."
    assert shown(None)["R1"] == ("unknown", "", None, "no biller has compared the books yet")
    assert sentence(None) == "The books were not compared yet."
