"""`parley safety`: documents are shown as they are set again, changed after a look, kept with who and why."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from billing.posting.biller import post
from billing.tenants.tenancy import find_tenant
from billing.usage import encode
from core.clock import now_ms
from core.sql.database import Database
from engine.safety.documents import DEFAULT_POLICY
from tests.billing.events import an_event
from tests.engine.cli.safety_desk import BLOCKED, OWN, Desk, desk_at

ROOT = Path(__file__).parents[3]


@pytest.fixture
def desk(home: Path, redis_url: str, sqlite_template: Path) -> Desk:
    """Nothing is set yet."""
    return desk_at(home, redis_url, sqlite_template)


def test_what_is_shown_is_set_again(desk: Desk) -> None:
    """On stdout a document alone; who set it is on stderr. The same again is no version."""
    shown = desk.run("show")
    assert json.loads(shown.stdout)["detectors"][0] == {
        "name": "private_key",
        "version": 1,
        "action": "redact",
    }
    assert "the built-in default holds" in shown.stderr
    assert json.loads(desk.good("show", "--tenant", "acme")) == {"base": 0}
    desk.good("set", desk.file(OWN), "--tenant", "acme", "--reason", "ticket 7", "--yes")
    shown = desk.run("show", "--tenant", "acme")
    assert "version 1 by ada" in shown.stderr
    again = desk.good("set", "-", "--tenant", "acme", "--reason", "r", "--yes", given=shown.stdout)
    assert again.splitlines()[-1] == "tenant acme has this document already, in version 1"
    letters = {"words": [{"name": "own", "action": "flag", "words": ["a\u202eb", "käfer", "\u200b\x1b[0m"]}]}
    desk.good("set", desk.file(letters), "--tenant", "acme", "--reason", "r", "--yes")
    shown = desk.run("show", "--tenant", "acme")
    assert json.loads(shown.stdout)["words"] == letters["words"]
    assert "\u202e" not in shown.stdout


def test_it_is_looked_at_before_it_holds(desk: Desk) -> None:
    """The diff stands before the question; whoever does not say yes has changed nothing."""
    words = ("set", desk.file(BLOCKED), "--reason", "r")
    for given in ("n\n", "", "what\n"):
        assert "nothing is changed" in desk.refused(*words, given=given)
    assert json.loads(desk.good("show"))["detectors"][2]["action"] == "redact"
    asked = desk.run(*words, given="y\n")
    assert '-      "name": "private_key"' in asked.stdout  # of the default, which it replaces
    assert "set this for the platform? [y/N]" in asked.stderr
    assert json.loads(desk.good("show")) == {"base": 1} | BLOCKED
    assert "say --yes" in desk.refused("set", "-", "--reason", "r", given=json.dumps(BLOCKED))
    assert "say --yes" in desk.refused(*words, "--json")


def test_rules_that_do_nothing_are_named(desk: Desk) -> None:
    """A tenant's under the platform's, and those of projects under a new document of their tenant's."""
    web = ("--tenant", "acme", "--project", "web")
    told = desk.good("set", desk.file(OWN), *web, "--reason", "r", "--yes")
    assert "card: flag in answers does nothing: the platform's redact holds" in told
    assert "employee_id" not in told.splitlines()[-2]
    stricter = {"patterns": [{**OWN["patterns"][0], "action": "block"}]}
    told = desk.json("set", desk.file(stricter), "--tenant", "acme", "--reason", "r", "--yes")
    (below,) = [each for each in told["overridden_below"] if each["name"] == "employee_id"]
    assert (below["asked"], below["holds"], below["scope"]) == ("redact", "block", "tenant")
    assert below["of"] == "action"
    assert below["whose"].startswith("project ")
    told = desk.good("set", desk.file(BLOCKED), "--reason", "r", "--yes", "--loosen")
    assert "of acme: card: flag in answers does nothing: the platform's block holds" in told


def test_what_holds_is_shown_with_whose_rule_it_is(desk: Desk) -> None:
    """And with the hash that requests carry."""
    assert desk.json("show", "--merged")["sha256"] == DEFAULT_POLICY
    desk.good("set", desk.file(OWN), "--tenant", "acme", "--reason", "r", "--yes")
    held = desk.json("show", "--tenant", "acme", "--project", "web", "--merged")
    cards = [each for each in held["document"]["detectors"] if each["name"] == "card"]
    assert [(each["scope"], each.get("action"), each.get("prompt")) for each in cards] == [
        ("platform", "redact", None),
        ("tenant", None, "block"),
    ]
    assert json.loads(desk.good("show", "--merged"))["detectors"][0]["scope"] == "platform"


def test_the_history_says_who_changed_what_and_why(desk: Desk) -> None:
    """Newest first; a version of before comes back by a pipe."""
    acme = ("--tenant", "acme")
    assert "has no document" in desk.good("history", *acme)
    desk.good("set", desk.file(OWN), *acme, "--reason", "first", "--yes")
    desk.good("set", "--remove", *acme, "--reason", "second", "--yes")
    desk.good("set", desk.file(BLOCKED), *acme, "--reason", "third", "--yes")
    rows = [json.loads(line) for line in desk.good("history", *acme, "--json").splitlines()]
    assert [(row["version"], row["state"], row["reason"], row["author"]) for row in rows] == [
        (3, "set", "third", "ada"),
        (2, "removed", "second", "ada"),
        (1, "set", "first", "ada"),
    ]
    assert '-      "pattern": "EMP-[0-9]{6}",' in rows[1]["diff"]
    assert rows[1]["sha256"] is None
    table = desk.good("history", *acme, "--limit", "2").splitlines()
    assert len(table) == 3
    assert table[1].split()[:1] == ["3"]
    assert '+      "action": "block"' in desk.good("history", *acme, "--diff")
    first = desk.good("show", *acme, "--version", "1")
    desk.good("set", "-", *acme, "--reason", "back", "--yes", given=first)
    assert desk.json("show", *acme)["version"] == 4
    assert json.loads(desk.good("show", *acme)) == json.loads(first) | {"base": 4}
    told = desk.refused("show", *acme, "--version", "9")
    assert "has no version 9: see `parley safety history --tenant acme`" in told


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ("", "document.json: it is empty"),
        ('{"patterns": [{"name": "own", "pattern": "(?=a)b", "action": "flag"}]}', "own: .*lookaround"),
        ('{"patterns": [{"name": "own", "pattern": "a?", "action": "flag"}]}', "own: .*empty"),
        ('{"patterns": [{"name": "own", "pattern": "a{257}", "action": "flag"}]}', "own: .*256"),
        ('{"detectors": [{"name": "cards", "action": "flag"}]}', "no detector cards"),
        ('{"detectors": [{"name": "card"}]}', "neither action nor prompt"),
        (" " * (256 << 10) + "{}", "256 KiB"),
    ],
)
def test_what_cannot_be_looked_for_safely_is_refused(desk: Desk, document: str, why: str) -> None:
    """With the pattern and the reason, before anything is asked."""
    told = desk.refused("set", desk.file(document), "--tenant", "acme", "--reason", "r", given="y\n")
    assert re.search(why, told), told
    assert desk.json("show", "--tenant", "acme")["document"] == {}


def test_the_documents_that_we_show_are_taken(desk: Desk) -> None:
    """That of the manual, and that of the command's help."""
    manual = (ROOT / "docs" / "safety.md").read_text().partition("```json\n")[2].partition("```")[0]
    shown = " ".join(desk.good("--help").split())
    helped = shown[shown.index('{"detectors"') : shown.index("The platform's document")]
    for document in (manual, helped):
        assert set(json.loads(document)) == {"detectors", "patterns", "words"}
        desk.good("set", desk.file(document), "--tenant", "acme", "--reason", "r", "--yes")
    found = desk.json("try", "it is EMP-123456, for Ｂlue her\u200bon", "--tenant", "acme")
    assert found["shown"] == "it is [EMPLOYEE_ID_1], for Ｂlue her\u200bon"
    assert [flag["category"] for flag in found["flags"]] == ["employee_id", "project_names"]


def test_who_or_what_is_unknown_is_said(desk: Desk) -> None:
    """One line each, and another exit code than 0."""
    assert "no tenant 'globex'" in desk.refused("show", "--tenant", "globex")
    assert "no project 'x'" in desk.refused("show", "--tenant", "acme", "--project", "x")
    assert "--project names a project of --tenant" in desk.refused("show", "--project", "web")
    assert "name a FILE, or say --remove" in desk.refused("set", "--reason", "r")
    assert "cannot be read" in desk.refused("set", "/nowhere/x.json", "--reason", "r")
    assert "no document to remove" in desk.refused("set", "--remove", "--reason", "r", "--yes")


def test_a_text_is_tried_before_a_document_is_set(desk: Desk) -> None:
    """Step by step: matches, places, whose rule, what is held when; and nothing of it is kept anywhere."""
    secret = "my card is 4111 1111 1111 1111, EMP-123456 or a@b.example"
    draft = desk.file(OWN)
    told = desk.good("try", secret, "--tenant", "acme", "--document", draft)
    rows = [line.split() for line in told.splitlines()]
    assert ["11", "19", "card", "redact", "platform", "4111", "1111", "1111", "1111"] in rows
    assert ["32", "10", "[EMPLOYEE_ID_1]", "employee_id", "tenant", "1"] in rows
    assert "my card is [CARD_1], [EMPLOYEE_ID_1] or a@b.example" in told
    assert "marked: email, by the platform's rule: a@b.example" in told
    found = desk.json("try", "-", "--tenant", "acme", given=secret)
    assert found["shown"] == "my card is [CARD_1], EMP-123456 or a@b.example"
    assert max(step["held"] for step in found["steps"]) == 19
    refused = desk.good("try", secret, "--tenant", "acme", "--document", draft, "--prompt")
    assert "The prompt is refused, and nothing of it is sent, for card, by the tenant's rule." in refused
    assert "my card" not in refused
    assert desk.good("try", "hello", "--document", draft).startswith("Nothing is found.")
    kept = [file for file in desk.home.rglob("*") if file.is_file() and b"4111 1111" in file.read_bytes()]
    assert kept == []


def test_ten_thousand_words_are_set_and_tried(desk: Desk) -> None:
    """As many as there may be; one more is refused."""
    words = [f"bird{number}" for number in range(10_000)]
    listed = {"words": [{"name": "birds", "action": "redact", "words": words}]}
    desk.good("set", desk.file(listed), "--tenant", "acme", "--reason", "r", "--yes")
    found = desk.json("try", "a ＢIRD9999 and bird10000", "--tenant", "acme")
    assert found["shown"] == "a [BIRDS_1] and bird10000"
    listed["words"][0]["words"] = [*words, "one more"]
    told = desk.refused("set", desk.file(listed), "--tenant", "acme", "--reason", "r", "--yes")
    assert "10,001 words; 10,000 at most" in told


def test_what_is_no_text_is_said(desk: Desk) -> None:
    """A file is named as one; what is too much or no text is refused."""
    assert desk.json("try", "--file", desk.file("a@b.example"))["flags"][0]["category"] == "email"
    path = desk.home / "binary"
    path.write_bytes(b"ab\xff")
    assert "not UTF-8, at byte 2" in desk.refused("try", "--file", str(path))
    path.write_bytes(b"a" * ((256 << 10) + 1))
    assert "256 KiB at most" in desk.refused("try", "--file", str(path))
    assert "cannot be read: Is a directory" in desk.refused("try", "--file", str(desk.home))
    assert "cannot be read: No such file" in desk.refused("try", "--file", str(desk.home / "mails.txt"))
    assert "stdin is the text or the document" in desk.refused("try", "-", "--document", "-")
    assert "name a TEXT" in desk.refused("try")
    assert "name a TEXT" in desk.refused("try", "x", "--file", "-")
    assert desk.json("try", "--file", "-", given="x")["shown"] == "x"


def test_a_files_name_is_not_taken_for_a_text_unsaid(desk: Desk) -> None:
    """What is a file or a folder is refused; what may be meant as one is tried, and that is said."""
    file = desk.file("my card is 4111 1111 1111 1111")
    assert f"is a file: --file {file} tries what is in it" in desk.refused("try", file)
    assert "is a folder" in desk.refused("try", str(desk.home))
    for text in ("mails.txt", "nowhere/mails"):
        assert f"no file has this name: {text} itself is the text" in desk.run("try", text).stderr
    for text in ("a@b.example", "mails", "see mails.txt", "3.14", "10.0.0.1"):
        assert "no file" not in desk.run("try", text).stderr
    assert "the text is empty" in desk.run("try", "").stderr
    assert desk.json("try", "")["shown"] == ""


def test_a_long_text_leaves_what_is_shown_in_sight(desk: Desk) -> None:
    """Tables are cut, and --json has all of them."""
    text = "call 4111 1111 1111 1111 " * 200
    told = desk.good("try", text).splitlines()
    assert len(told) < 80
    assert "… 180 more: --json has all" in told
    assert len(desk.json("try", text)["matches"]) == 200


def test_what_was_found_is_counted_by_day(desk: Desk) -> None:
    """Of one tenant, and of all; where nothing was found, that is said."""
    assert desk.good("stats") == "nothing was found in 0 requests of 30 days\n"
    asyncio.run(_used(desk.home / "parley.db"))
    table = [line.split() for line in desk.good("stats", "--tenant", "acme", "--days", "1").splitlines()]
    assert table[0] == ["day", "category", "in", "action", "verdicts", "requests", "of"]
    assert [row[1:] for row in table[1:]] == [
        ["card", "answers", "redact", "3", "2", "3"],
        ["card", "prompts", "redact", "1", "1", "3"],
    ]
    (day,) = [json.loads(line) for line in desk.good("stats", "--days", "1", "--json").splitlines()]
    assert (day["requests"], day["found"][0]["verdicts"]) == (3, 3)
    assert "no tenant 'globex'" in desk.refused("stats", "--tenant", "globex")


async def _used(file: Path) -> None:
    db = Database(f"sqlite+aiosqlite:///{file}")
    tenant = await find_tenant(db, "acme")
    assert tenant is not None
    for number, verdicts in enumerate(
        ({"card": {"redact": 2}}, {"card": {"redact": 1}}, {"card": {"prompt_redact": 1}})
    ):
        event = an_event(f"r{number}", tenant.tenant_id, policy=DEFAULT_POLICY, verdicts=verdicts, **_now())
        batch, _ = await post(db, "default", [encode(event)])
        assert not batch.held
    await db.close()


def _now() -> dict[str, int]:
    at = now_ms()
    return {"accepted_ms": at, "ended_ms": at}
