"""Times in a tenant's own zone: days on which clocks change, and zones whose offset is no whole hour."""

import json
import re
import subprocess
from typing import Any

import pytest

from scripts.javascript import ROOT, find_node

WEB = ROOT / "admin" / "web"
ZONED = WEB / "shared" / "zoned.ts"
IN_UTC = re.compile(r"import \{[^}]*\b(?:moment|clock)\b[^}]*\} from \"[./]*/format\"")
OF_THE_CONSOLE = {"line-chart.tsx", "shell-parts.tsx", "limit-words.ts"}  # or given a zone by the portal
CALL = """
const { registerHooks } = await import("node:module");
const resolve = (name, context, next) => next(name.startsWith("./") ? `${name}.ts` : name, context);
registerHooks({ resolve });
const zoned = await import(%s);
console.log(JSON.stringify(%s.map(([name, time, zone]) => {
  const found = zoned[name](name === "zonedStart" ? time : time && new Date(time), zone);
  return found instanceof Date ? found.toISOString() : found;
})));
"""
BERLIN, KATHMANDU, CHATHAM = "Europe/Berlin", "Asia/Kathmandu", "Pacific/Chatham"


def zoned(name: str, *asked: tuple[str | None, str]) -> list[Any]:
    """What a function of zoned.ts makes of times and zones."""
    calls = json.dumps([(name, *each) for each in asked])
    program = CALL % (json.dumps(ZONED.as_uri()), calls)
    said = subprocess.run(
        [*find_node()[0], "--input-type=module", "--eval", program], capture_output=True, text=True
    )
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


def test_a_time_is_shown_as_clocks_there_show_it():
    """To the second; where there is none a dash."""
    at = "2026-11-25T18:20:09Z"
    assert zoned("zonedSecond", (at, KATHMANDU), (at, CHATHAM), (at, "UTC"), (None, BERLIN)) == [
        "2026-11-26 00:05:09",
        "2026-11-26 08:05:09",
        "2026-11-25 18:20:09",
        "–",
    ]
    assert zoned("zonedMinute", (at, BERLIN)) == ["2026-11-25 19:20"]
    assert zoned("zonedClock", (at, CHATHAM), (None, CHATHAM)) == ["08:05:09", "–"]


def test_a_time_belongs_to_the_day_of_its_zone():
    """Just before and at midnight there."""
    edges = ("2026-11-25T18:14:59Z", KATHMANDU), ("2026-11-25T18:15:00Z", KATHMANDU)
    assert zoned("zonedDay", *edges) == ["2026-11-25", "2026-11-26"]
    edges = ("2026-11-25T10:14:59Z", CHATHAM), ("2026-11-25T10:15:00Z", CHATHAM)
    assert zoned("zonedDay", *edges) == ["2026-11-25", "2026-11-26"]


def test_an_hour_that_clocks_show_twice_or_never_is_shown_as_they_do():
    """Berlin's two hours from 02:00 in October, and none in March."""
    october = [("2026-10-25T00:30:00Z", BERLIN), ("2026-10-25T01:30:00Z", BERLIN)]
    assert zoned("zonedMinute", *october) == ["2026-10-25 02:30", "2026-10-25 02:30"]
    march = [("2026-03-29T00:59:00Z", BERLIN), ("2026-03-29T01:00:00Z", BERLIN)]
    assert zoned("zonedMinute", *march) == ["2026-03-29 01:59", "2026-03-29 03:00"]


@pytest.mark.parametrize(
    ("day", "zone", "begins"),
    [
        ("2026-12-01", BERLIN, "2026-11-30T23:00:00.000Z"),
        ("2026-03-30", BERLIN, "2026-03-29T22:00:00.000Z"),
        ("2026-10-25", BERLIN, "2026-10-24T22:00:00.000Z"),
        ("2026-12-01", KATHMANDU, "2026-11-30T18:15:00.000Z"),
        ("2026-12-01", CHATHAM, "2026-11-30T10:15:00.000Z"),
        ("2026-04-05", CHATHAM, "2026-04-04T10:15:00.000Z"),
        pytest.param("2026-09-06", "America/Santiago", "2026-09-06T04:00:00.000Z", id="midnight skipped"),
        pytest.param("2026-04-24", "Africa/Cairo", "2026-04-23T22:00:00.000Z", id="skipped, ahead of UTC"),
        pytest.param("2026-11-01", "America/Havana", "2026-11-01T04:00:00.000Z", id="midnight twice"),
    ],
)
def test_a_day_begins_at_its_first_instant(day: str, zone: str, begins: str):
    """At midnight there; where clocks skip it, right behind, and where they show it twice, the first time."""
    assert zoned("zonedStart", (day, zone)) == [begins]


def test_the_next_month_is_that_of_the_zone():
    """It is December there before it is in UTC."""
    asked = [("2026-11-30T18:14:00Z", KATHMANDU), ("2026-11-30T18:15:00Z", KATHMANDU)]
    assert zoned("nextMonth", *asked) == ["2026-12-01", "2027-01-01"]


def test_the_portal_shows_no_time_in_utc():
    """Neither its pages nor what they share with the console."""
    files = [path for folder in ("portal", "shared") for path in (WEB / folder).rglob("*.ts*")]
    assert {path.name for path in files if IN_UTC.search(path.read_text())} == OF_THE_CONSOLE
