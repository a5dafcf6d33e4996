"""`parley safety set`: nothing is lost unsaid, and nobody's change by another's."""

import json
import os
from pathlib import Path

import pytest

from tests.engine.cli.safety_desk import BLOCKED, OWN, Desk, desk_at

ACME = ("--tenant", "acme")
YES = ("--reason", "r", "--yes")


@pytest.fixture
def desk(home: Path, redis_url: str, sqlite_template: Path) -> Desk:
    """Nothing is set yet."""
    return desk_at(home, redis_url, sqlite_template)


@pytest.mark.parametrize(
    ("document", "lost"),
    [
        ({}, "private_key, api_key, card, iban, email, phone"),
        (BLOCKED, "private_key, api_key, iban, email, phone"),
    ],
)
def test_the_platform_loses_its_defaults_only_where_that_is_agreed(
    desk: Desk, document: dict[str, object], lost: str
) -> None:
    """Nobody is asked with --yes, so it takes --loosen; who is asked sees what goes."""
    file = desk.file(document)
    said = f"No longer looked for in answers: {lost}"
    told, facts = desk.refusal("set", file, *YES)
    assert "nothing is changed" in told
    assert ", ".join(each["name"] for each in facts["lost"]) == lost
    assert said in told
    assert "add --loosen" in told
    assert desk.json("show")["base"] == 0
    asked = desk.run("set", file, "--reason", "r", given="n\n").stdout
    assert said in asked
    assert "It replaces the built-in default" in asked
    set_so = desk.json("set", file, *YES, "--loosen")
    assert ", ".join(each["name"] for each in set_so["lost"]) == lost
    assert {each["of"] for each in set_so["lost"]} == {"action"}
    told = desk.json("set", "--remove", *YES, "--loosen")
    assert (told["lost"], [each["name"] for each in told["weakened"]]) == (
        [],
        ["card"] if document else [],
    )
    assert "the built-in default too" in " ".join(desk.good("set", "--help").split())


def test_what_a_tenant_loses_is_said(desk: Desk) -> None:
    """The platform's floor stays, so it is no loss; a tenant needs no more consent than --yes."""
    words = {"words": [{"name": "birds", "action": "flag", "words": ["heron", "owl", "wren"]}]}
    first = {"detectors": [{"name": "card", "action": "block", "prompt": "block"}], **words}
    desk.good("set", desk.file(first), *ACME, *YES)
    words["words"][0]["words"] = ["heron"]
    told = desk.good("set", desk.file(words), *ACME, *YES)
    assert "No longer looked for in answers: 2 words of birds" in told
    assert "No longer looked for in prompts: card" in told
    assert "Weaker in answers: card, block until now, then redact" in told
    told = desk.json("set", "--remove", *ACME, *YES)
    assert told["lost"] == [{"name": "birds", "of": "action", "was": "flag", "words": None}]


def test_of_two_who_edit_the_same_version_nobody_loses_a_rule(desk: Desk) -> None:
    """The second is told who came in between; a version of before is set by who saw the newest one."""
    desk.good("set", desk.file(OWN), *ACME, *YES)
    seen = json.loads(desk.good("show", *ACME))
    anns = {**seen, "words": [{"name": "birds", "action": "flag", "words": ["heron"]}]}
    told = desk.run("set", desk.file(anns), *ACME, *YES, by="ann")
    assert (told.exit_code, told.stderr) == (0, 'to go on with this file, write "base": 2 into it\n')
    mine = {**seen, "detectors": []}
    told, facts = desk.refusal("set", desk.file(mine), *ACME, *YES)
    assert facts == {"base": 1, "version": 2, "author": "ann"}
    assert "version 2 by ann came in between, the file is from version 1: nothing is changed" in told
    assert "parley safety history --tenant acme --diff" in told
    assert "words" in desk.json("show", *ACME)["document"]
    first = desk.good("show", *ACME, "--version", "1")
    assert json.loads(first) == seen | {"base": 2}
    desk.good("set", "-", *ACME, *YES, given=first)
    assert "came in between" in desk.refused("set", "-", *ACME, *YES, given=first)
    elsewhere = desk.file({**seen, "base": 9})
    assert "was it shown elsewhere?" in desk.refused("set", elsewhere, *ACME, *YES)


def test_without_a_version_it_is_said_whose_is_replaced(desk: Desk) -> None:
    """In one line, before it is asked."""
    desk.good("set", desk.file(OWN), *ACME, "--reason", "ticket 7", "--yes")
    told = desk.run("set", desk.file(BLOCKED), *ACME, "--reason", "r", given="n\n").stdout
    (line,) = [line for line in told.splitlines() if line.startswith("It replaces version 1 by ada, ")]
    assert line.endswith(": ticket 7")
    assert desk.json("set", desk.file(BLOCKED), *ACME, *YES)["replaces"] == 1


def test_a_rule_for_one_side_says_that_the_other_has_none(desk: Desk) -> None:
    """Where it is set, and where it is tried; not where an outer level has one."""
    file = desk.file(OWN)
    told = desk.good("set", file, *ACME, *YES)
    said = 'employee_id: not looked for in prompts; add "prompt": "redact" (or block, flag)'
    assert said in told
    assert "card: not looked for" not in told
    tried = desk.run("try", "x", *ACME, "--prompt")
    assert "private_key, api_key, iban, email, phone, employee_id: not looked for in prompts" in tried.stderr
    prompts = {"patterns": [{"name": "ids", "pattern": "EMP", "prompt": "block"}]}
    assert desk.json("set", desk.file(prompts), *ACME, *YES)["not_looked_for"] == {
        "answers": ["ids"],
        "prompts": [],
    }
    tried = desk.run("try", "EMP", *ACME)
    assert "ids: looked for in prompts only, which --prompt tries" in tried.stderr


def test_a_text_file_beside_the_document_is_a_list_of_words(desk: Desk) -> None:
    """Read as it is set or tried, and kept as words; what is left out is said."""
    (desk.home / "birds.txt").write_text("blue heron\n\nnight owl\nNight owl\n")
    birds = {"name": "birds", "action": "flag", "prompt": "flag"}
    file = desk.file({"words": [{**birds, "words_file": "birds.txt"}]})
    tried = desk.run("try", "a Blue Heron", *ACME, "--document", file)
    assert "marked: birds, by the tenant's rule: Blue Heron" in tried.stdout
    told = desk.run("set", file, *ACME, *YES)
    said = "birds.txt: 2 words; left out: 1 blank line, 1 word that is there already"
    assert said in told.stderr, told.output
    assert desk.json("show", *ACME)["document"] == {
        "words": [{**birds, "words": ["blue heron", "night owl"]}]
    }
    (desk.home / "birds.txt").unlink()
    assert "birds.txt cannot be read: No such file" in desk.refused("set", file, *ACME, *YES)


def test_a_list_of_words_is_a_plain_file_in_the_documents_folder(desk: Desk) -> None:
    """What a document names may be another's: no link out of the folder, no pipe that is waited for."""
    file = desk.file({"words": [{"name": "birds", "action": "flag", "words_file": "birds.txt"}]})
    names = desk.home / "birds.txt"
    names.symlink_to("/etc/hostname")
    assert "it is a link out of the document's own folder" in desk.refused("set", file, *ACME, *YES)
    names.unlink()
    os.mkfifo(names)
    assert "birds.txt cannot be read: it is no plain file" in desk.refused("set", file, *ACME, *YES)


def test_a_dry_run_shows_what_a_document_changes(desk: Desk) -> None:
    """Without asking; there is no version after it."""
    shown = desk.run("set", desk.file(OWN), *ACME, "--reason", "r", "--dry-run")
    assert "+" in shown.stdout
    assert "this was a dry run" in shown.stderr
    facts = desk.json("set", desk.file(OWN), *ACME, "--reason", "r", "--dry-run")
    assert (facts["version"], facts["changed"]) == (1, True)
    assert desk.json("show", *ACME)["base"] == 0
