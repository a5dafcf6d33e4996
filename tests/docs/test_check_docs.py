"""The check of documents (`make check`) finds each kind of fault, and says where it is."""

from pathlib import Path

import pytest

from core.configuration.settings import Settings
from scripts.check_docs import invariants, named_tests, references
from scripts.check_docs.__main__ import main
from scripts.check_docs.settings_table import PAGE, SettingText, Tables, takes, texts_in
from scripts.check_docs.tree import Fault, Tree

ROOT = Path(__file__).parents[2]
FIELDS = Settings.model_fields
OPERATIONS = (
    '# Operations\n\n## What is "it"?\n\n**Deleting.** Gone.\n\n```\n# no heading\n```\n\n## What is "it"?\n'
)
PROVES = '@mark\nasync def test_it():\n    """INV-1, INV-3: It holds."""\n'
PROMISES = "".join(f"## {who}\n\n- All is well: `tests/a.py::test_it`.\n\n" for who in named_tests.WHO)
SETTINGS = '''class Some(SettingsPart):
    """About it."""

    # Doors
    port: Port = 8080
    """Port of
    a gateway."""
    host: str = ""

    # Waits
    stuck_seconds: PauseOrNone = 30.0
    """Seconds until it is stuck; 0: at once."""
'''


def references_of(text: str, name: str = "docs/page.md") -> list[str]:
    """The faults of a file of this name and text, with their lines."""
    texts = {"docs/room/work.md": OPERATIONS, name: text}
    found = references.faults_in(name, Tree(texts, frozenset({*texts, "engine/claim.lua", "core/names.py"})))
    return [f"{fault.line}: {fault.what.rpartition(': ')[0]}" for fault in found]


def test_the_documents_have_no_fault(capsys: pytest.CaptureFixture[str]):
    """As `make check` asks it; each setting has its row."""
    code = main(write=False, listed=False)
    assert code == 0, capsys.readouterr().out
    rows = [line for line in (ROOT / PAGE).read_text().splitlines() if line.startswith("| `PARLEY_")]
    assert len(rows) == len(FIELDS)


def test_a_heading_that_is_quoted_behind_its_page_exists():
    """In code and pages; the bold beginning of a paragraph is one, and one may be broken over lines."""
    assert references_of('"""As told (docs/room/work.md, "Deleting")."""', "a.py") == []
    assert references_of('-- docs/room/work.md,\n-- "Deleting"', "a.lua") == []
    assert references_of('\n# docs/room/work.md, "No such\n# thing"', "a.py") == [
        '2: docs/room/work.md has no heading "No such thing"'
    ]
    assert references_of('# docs/room/work.md ("no heading")', "a.py") == [
        '1: docs/room/work.md has no heading "no heading"'
    ]
    assert references_of("# (docs/room/work.md, deleting)", "a.py") == ["1: put the heading in quotes"]
    assert references_of("# docs/work.md", "a.py") == ["1: there is no docs/work.md"]


def test_a_link_leads_to_a_file_and_a_heading():
    """A heading's anchor is as GitHub makes it; two of one name have two anchors."""
    links = [
        "room/work.md#what-is-it",
        "room/work.md#what-is-it-1",
        "#top",
        "https://example.org#x",
        "../core/",
    ]
    assert references_of("# Top\n" + " ".join(f"[a]({link})" for link in links)) == []
    wrong = "# Top\n`[a](code.md)`\n```\n[a](code.md)\n```\n[a](room/work.md#what-is-it-2)\n[a](gone.md)\n"
    assert references_of(wrong) == [
        "6: docs/room/work.md has no heading #what-is-it-2",
        "7: there is no gone.md",
    ]


def test_what_a_page_names_of_itself_and_of_the_tree_is_there():
    """Paths in backticks, names of files alone, and headings of the same page."""
    names = "`core/`, `core/gone.py`, `claim.lua`, `lost.lua`, `engine/gone/`, `/url.js`"
    assert references_of(f'## Held\n\nsee "Held" and "Let go" below; {names}\n') == [
        '3: this page has no heading "Let go"',
        "3: there is no engine/gone/",
        "3: there is no core/gone.py",
        "3: there is no lost.lua",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "tests/a.py::test_that_was_renamed",
        "tests/gone.py::test_it",
        "tests/a.py::Class::test_it",
        "tests/c.yaml: a case that\n  was renamed",
    ],
)
def test_a_test_that_a_page_names_exists(name: str):
    """Tests, methods and conformance cases, on any page; a name may be broken over lines."""
    texts = {
        "tests/a.py": "class TestA:\n    def test_in_it(self): ...\ndef test_it(): ...\nTestB = made()\n",
        "tests/c.yaml": "cases:\n  - name: a case\n",
        "docs/page.md": "`tests/a.py::TestA::test_in_it`, `tests/a.py::TestB`, `tests/c.yaml: a\n  case`",
        "docs/security.md": PROMISES,
    }
    assert list(named_tests.faults(Tree(texts, frozenset(texts)))) == []
    texts["README.md"] = f"See\n`tests/a.py::test_it` and `{name}`."
    missing = f"there is no test {' '.join(name.split())}: name the one that holds this now"
    assert list(named_tests.faults(Tree(texts, frozenset(texts)))) == [Fault("README.md", 2, missing)]


def test_each_promise_names_a_test():
    """Each list item of the five sections, however many lines it has; a section that is missing is named."""
    assert list(named_tests.promises_without_test(PROMISES)) == []
    silent = PROMISES + "- Something\n  else.\n\n## Beside\n\n- No promise.\n"
    line = PROMISES.count("\n") + 1
    found = list(named_tests.promises_without_test(silent))
    assert [(fault.line, fault.what) for fault in found] == [
        (line, "this promise names no test: name one that holds it")
    ]
    gone = list(named_tests.promises_without_test(PROMISES.replace("## A tenant", "### A tenant")))
    assert [fault.what.partition(":")[0] for fault in gone] == ['there is no section "A tenant"']


def test_what_a_test_proves_is_what_its_docstring_begins_with():
    """Of tests and conformance cases; not what it only mentions, nor a helper, nor the long form alone."""
    proofs_in = invariants.proofs_in
    assert proofs_in("a.py", PROVES) == {"a.py::test_it": {"INV-1", "INV-3"}}
    assert proofs_in("a.py", PROVES.replace("INV-1, INV-3: It", "See INV-1: it")) == {}
    assert proofs_in("a.py", PROVES.replace("test_it", "helps")) == {}
    assert proofs_in("a.py", PROVES.replace("@mark", "@pytest.mark.long")) == {}
    assert proofs_in("a.py", f"pytestmark = pytest.mark.long\n{PROVES}") == {}
    case = 'cases:\n  - name: it is so\n    why: "INV-2: Always"\n  - name: other\n    why: it is\n'
    assert proofs_in("a.yaml", case) == {"a.yaml::it is so": {"INV-2"}}


def test_an_invariant_without_a_proof_and_an_unknown_number_are_named():
    """A row that was left out, too."""
    texts = {
        "docs/invariants.md": "# Invariants\n\n| INV-1 | a |\n| INV-2 | b |\n| INV-4 | c |\n",
        "tests/a.py": PROVES,
    }
    found = [str(fault) for fault in invariants.faults(Tree(texts, frozenset(texts)))]
    assert [each.rpartition(": ")[0] for each in found[1:]] == [
        "docs/invariants.md:5: INV-4 stands where INV-3 is due",
        'docs/invariants.md:5: no test proves INV-4: begin the docstring of one with "INV-4',
        "tests/a.py:3: INV-3 has no row in docs/invariants.md",
    ]
    assert found[0] == 'docs/invariants.md:4: no test proves INV-2: begin the docstring of one with "INV-2: "'
    assert invariants.listed(Tree(texts, frozenset(texts))) == ["INV-1: tests/a.py::test_it"]


def test_a_sentence_stands_under_its_setting_in_its_section():
    """Broken lines are joined; what has none says so by an empty one."""
    assert texts_in(SETTINGS, "a_settings.py", above=10) == [
        SettingText("Doors", "port", "Port of a gateway.", "a_settings.py", 15),
        SettingText("Doors", "host", "", "a_settings.py", 18),
        SettingText("Waits", "stuck_seconds", "Seconds until it is stuck; 0: at once.", "a_settings.py", 21),
    ]


def test_a_setting_without_a_sentence_and_a_zero_that_is_not_explained_are_named():
    """Where 0 is a number as others (a port's), nothing need be said of it."""
    texts = [*texts_in(SETTINGS, "a.py"), SettingText("Waits", "stuck_seconds", "Seconds.", "a.py", 13)]
    assert [str(fault) for fault in Tables(texts, FIELDS).faults("")] == [
        "a.py:8: PARLEY_HOST has no sentence: write one under it",
        "a.py:13: PARLEY_STUCK_SECONDS may be 0, and its sentence does not say what 0 is: say so",
    ]


def test_a_row_says_what_may_be_set():
    """Bounds with their unit, words to choose from, and that a secret may come by a file."""
    told = {name: takes(name, FIELDS[name]) for name in ("port", "window_events", "maxmemory_fraction_max")}
    assert told == {"port": "≥ 0, ≤ 65535", "window_events": "≥ 1", "maxmemory_fraction_max": "> 0, ≤ 1"}
    assert takes("heartbeat_interval_ms", FIELDS["heartbeat_interval_ms"]) == "≥ 1 ms"
    assert takes("console_port", FIELDS["console_port"]) == "≥ 0, ≤ 65535"
    assert takes("tls", FIELDS["tls"]) == "`auto`, `on`"
    assert takes("deflate", FIELDS["deflate"]) == "`true`, `false`"
    assert takes("secret", FIELDS["secret"]) == "text, or `…_FILE`"


def test_what_is_written_by_hand_stays_and_the_first_line_that_differs_is_named():
    """Only what follows the mark is made."""
    tables = Tables(texts_in(SETTINGS)[:1], FIELDS)
    page = tables.page_of("# Settings\n\nBy hand.\n")
    assert page.startswith("# Settings\n\nBy hand.\n<!--")
    assert page.splitlines()[-1] == "| `PARLEY_PORT` | `8080` | ≥ 0, ≤ 65535 | Port of a gateway. |"
    assert tables.page_of(page) == page
    assert tables.faults(page) == []
    [fault] = tables.faults(page.replace("`8080`", "`80`"))
    assert (fault.file, fault.line) == (PAGE, len(page.splitlines()))
