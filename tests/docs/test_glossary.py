"""docs/glossary.md is true, and names keep to it: classes, functions, modules, scripts, metrics, spans, log
events and commands."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from scripts.working_tree import files
from tests.billing.cli.audited_office import COMMANDS

ROOT = Path(__file__).parents[2]
PAGE = "docs/glossary.md"
PRODUCT = ("core/", "billing/", "engine/", "server/", "admin/", "clients/")

ROW = re.compile(r"^\| ([a-z' ]+) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)
CLASS = re.compile(r"^\s*class (\w+)[(:\[]", re.MULTILINE)
FUNCTION = re.compile(r"^[ \t]*(?:async )?def ([a-z]\w*)", re.MULTILINE)
METRIC = re.compile(r'"(parley_[a-z_]+)"')
LOG_EVENT = re.compile(r'\b(?:log|\w+)\.(?:debug|info|warning|error|exception|critical)\(\s*f?"([^"]*)"')
GUARDED = re.compile(r'logged_failures\(\s*\w+,\s*"([^"]*)"')
SPAN = re.compile(r'spans\.span\("([^"]*)"\)')
FORM = re.compile(r"[a-z_]+\.[a-z_]+")

# Retired in every sense: in no name of ours, but for what ALLOWED lists.
RETIRED = frozenset(
    {"door", "edge", "intake", "hub", "ladder", "underway", "purse", "place", "places", "grave"}
    | {"bury", "mended", "healed", "healing", "asides", "nursery", "nest", "crew", "scene", "stage"}
    | {"ground", "bed", "lobby", "entrance", "clerk", "circle", "seldom", "aim", "aims"}
    | {"told", "asked", "found", "validate"}
)
# Retired in one sense: in names under these paths, which have that sense.
RETIRED_UNDER = {
    "move": ("engine/",),
    "moved": ("engine/queue/lua/",),
    "release": ("engine/",),
    "released": ("engine/",),
    "books": (*PRODUCT, "tests/"),  # chaos/books has its name
    "reserve": ("server/requests/", "billing/quota/"),
    "kept": ("billing/audit_heads/",),
}
# Where a retired word stays, and why.
ALLOWED = {
    "core/configuration/settings.py: require_edge": "a setting's name, which operators type",
    "admin/console.py: books": "answers /api/books, which is on the wire",
    "billing/prices/book.py: list_price_books": "price books",
    "server/conversations/store.py: conversation_not_found": "not_found",
    "billing/cli/usage.py: told": "inside another function",
    "engine/backends/vllm_seeded_sampling.py: place": "a position in a random sequence",
    "engine/lifecycle/stale_admissions.py: release_stale_admissions": "the quota's release",
    "engine/cli/pools.py: move": "a tenant's: its routing and its requests",
    "engine/operations/moving_tenants.py: MoveTenant": "a tenant's: its routing and its requests",
    "engine/operations/moving_tenants.py: move_tenant": "a tenant's: its routing and its requests",
    "engine/instruments.py: parley_stale_admissions_released": "the quota's release",
    "clients/python/parley_client/readings.py: asked": "the client's: named anew with its next version",
}
# Calls of another's `info`: a Redis server's.
NO_EVENTS = frozenset({"core/runtime/embedded.py: server", "server/pools/tenant_terms.py: server"})
# Retired as words of our pages, too, outside of `code`; the others are plain English.
RETIRED_IN_PROSE = re.compile(
    r"\b(?:doors?|edge|intake|hubs?|ladder|underway|purse|asides|nursery|nest|lobby|clerk|seldom|healed|healing)\b",
    re.IGNORECASE,
)
PROSE_ALLOWED = re.compile(r"\bmodel hub\b|\ba hub's id\b|^ *hub -- |\[model hub|\bhub\(")
# Plain words that have another meaning here: what to say.
SENSES = {
    r"\btenant(?:'s|s')? slots?\b": "the tenant's hash slot keys",
    r"\bplace in line\b": "position",
    r"\bmov(?:e|es|ed|ing) to another pool\b": "migrate",
}


@cache
def _texts() -> dict[str, str]:
    """Every file of ours that has names or prose, but for migrations, which never change."""
    ours = (name for name in files(ROOT) if name.endswith((".py", ".lua", ".md")))
    kept = [name for name in ours if not name.startswith("core/migrations/")]
    return {name: (ROOT / name).read_text() for name in kept}


def _product() -> Iterator[tuple[str, str]]:
    return ((name, text) for name, text in _texts().items() if name.startswith(PRODUCT))


def parts(name: str) -> set[str]:
    """The words of a name, in small letters."""
    return {part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def repeated(files: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Class names that stand in more than one place, with their files."""
    stands: dict[str, list[str]] = defaultdict(list)
    for file, text in files:
        for name in CLASS.findall(text):
            stands[name].append(file)
    return {name: where for name, where in stands.items() if len(where) > 1}


def retired(file: str, name: str) -> set[str]:
    """The retired words of a name."""
    under = {word for word, paths in RETIRED_UNDER.items() if file.startswith(paths)}
    return parts(name) & (RETIRED | under)


def names_of(file: str, text: str) -> list[str]:
    """What is named in a file of the product, and the file itself."""
    found = [Path(file).stem]
    if file.endswith(".py"):
        found += CLASS.findall(text) + FUNCTION.findall(text)
    if file.endswith("/instruments.py"):
        found += METRIC.findall(text)
    return found


def test_each_row_says_where_its_word_stands():
    """A word has one row, its file exists, and its class is in that file."""
    table, _, _ = _texts()[PAGE].partition("## Retired words")
    rows = [row for row in ROW.findall(table) if row[0] != "word"]
    assert len(rows) > 40
    assert len({word for word, *_ in rows}) == len(rows), "a word has two rows"
    assert table.count("\n| ") == len(rows) + 1, "a row that is not of four columns"
    for word, _, _, where in rows:
        *names, path = re.findall(r"`([^`]+)`", where)
        assert (ROOT / path).exists(), f"{word}: {path}"
        for name in names:
            assert re.search(rf"^class {name}\b", _texts()[path], re.MULTILINE), f"{word}: {name} in {path}"


def test_a_class_name_stands_once_in_the_tree():
    """Whoever searches for one finds one."""
    python = [(file, text) for file, text in _texts().items() if file.endswith(".py")]
    assert repeated(python) == {}


def test_no_name_has_a_retired_word():
    """Neither of the product nor, of classes, of tests and chaos; commands neither."""
    found = {
        f"{file}: {name}": words
        for file, text in _product()
        for name in names_of(file, text)
        if (words := retired(file, name))
    }
    for file, text in _texts().items():
        if file.startswith(("tests/", "chaos/")) and file.endswith(".py"):
            found |= {
                f"{file}: {name}": words for name in CLASS.findall(text) if (words := retired(file, name))
            }
    found |= {f"parley {name}": words for name in COMMANDS if (words := retired("", name))}
    assert {where: words for where, words in found.items() if where not in ALLOWED} == {}
    assert not [where for where in ALLOWED if where not in found], "no exceptions any more"


def test_log_events_and_spans_are_component_and_verb():
    """`biller.run_failed`: what varies is a field."""
    found: list[str] = []
    for file, text in _product():
        if not file.endswith(".py") or file.startswith("clients/"):
            continue
        found += [
            f"{file}: {name}"
            for pattern in (LOG_EVENT, GUARDED, SPAN)
            for name in pattern.findall(text)
            if not FORM.fullmatch(name) and f"{file}: {name}" not in NO_EVENTS
        ]
    assert found == []


def test_the_look_at_events_sees_what_is_logged():
    """All ways to log: a bare call, one over lines, a warning that is said seldom, a guarded round."""
    assert LOG_EVENT.findall('log.error(\n    "a b",\n    x=1)') == ["a b"]
    assert LOG_EVENT.findall('repeated.warning("a.b", x=1)') == ["a.b"]
    assert GUARDED.findall('with logged_failures(repeated, "a", x=1):') == ["a"]
    assert SPAN.findall('with spans.span("validate"):') == ["validate"]
    assert sum(len(LOG_EVENT.findall(text)) for _, text in _product()) > 100


def test_plain_words_keep_their_sense():
    """In names and comments of the product, and its READMEs."""
    found = [
        f"{file}: say {say!r} for {match[0]!r}"
        for file, text in _product()
        for sense, say in SENSES.items()
        for match in re.finditer(sense, text, re.IGNORECASE)
    ]
    assert found == []


def prose_faults(text: str) -> list[str]:
    """Retired words in a page, without those in code and links."""
    bare = re.sub(r"`[^`]*`|\]\([^)]*\)|https?://\S+", "", text)
    lines = (PROSE_ALLOWED.sub("", line) for line in bare.splitlines())
    return [match for line in lines for match in RETIRED_IN_PROSE.findall(line)]


def test_pages_say_no_retired_word():
    """Operators and customers read the words that the commands and the code have."""
    pages = (
        (file, text) for file, text in _texts().items() if file.startswith("docs/") and file.endswith(".md")
    )
    found = {file: words for file, text in pages if file != PAGE and (words := prose_faults(text))}
    assert found == {}
    assert prose_faults("An edge, `edge`, the model hub and a Hub.") == ["edge", "Hub"]


def test_names_are_looked_at_word_by_word():
    assert parts("HTTPDoor_of2underTheEdge") == {"http", "door", "of", "under", "the", "edge"}
    assert retired("core/x.py", "ledger_of") == set()
    assert retired("core/x.py", "IntakeHub") == {"intake", "hub"}
    assert retired("engine/x.py", "release") == {"release"}
    assert retired("billing/x.py", "release") == set()
    assert repeated([("a", "class A:\n"), ("b", "    class A(B):\n"), ("c", "class B:\n")]) == {
        "A": ["a", "b"]
    }
