"""The check of references (`make check`) notices pages, headings and files that are not there."""

from pathlib import Path

import pytest

from scripts import check_references

PAGE = (
    '# Operations\n\n## What is "it"?\n\n**Deleting.** Gone.\n\n```\n# no heading\n```\n\n## What is "it"?\n'
)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with one page, docs/operations.md."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "operations.md").write_text(PAGE)
    monkeypatch.setattr(check_references, "ROOT", tmp_path)
    return tmp_path


def problems(tree: Path, name: str, text: str) -> list[str]:
    """What is said of a file of this name and text."""
    return list(check_references.problems_of(tree / name, text, {"claim.lua"}))


def test_a_heading_that_is_quoted_behind_its_page_exists(tree: Path):
    """In code and pages; the bold beginning of a paragraph is one, and one may be broken over lines."""
    assert problems(tree, "a.py", '"""As told (docs/operations.md, "Deleting")."""') == []
    assert problems(tree, "a.lua", '-- docs/operations.md,\n-- "Deleting"') == []
    assert problems(tree, "a.py", '# docs/operations.md, "No such\n# thing"') == [
        'docs/operations.md has no heading "No such thing"'
    ]
    assert problems(tree, "a.py", '# docs/operations.md ("no heading")') == [
        'docs/operations.md has no heading "no heading"'
    ]
    assert problems(tree, "a.py", "# (docs/operations.md, deleting)") == [
        "put the heading in quotes: deleting"
    ]
    assert problems(tree, "a.py", "# docs/other.md") == ["there is no docs/other.md"]


def test_a_link_leads_to_a_file_and_a_heading(tree: Path):
    """A heading's anchor is as GitHub makes it; two of one name have two anchors."""
    links = ["operations.md#what-is-it", "operations.md#what-is-it-1", "#top", "https://example.org#x"]
    text = "# Top\n" + " ".join(f"[a]({link})" for link in links)
    (tree / "docs" / "b.md").write_text(text)
    assert problems(tree, "docs/b.md", text) == []
    wrong = "# Top\n[a](operations.md#what-is-it-2) [a](gone.md) `[a](code.md)`\n```\n[a](code.md)\n```\n"
    assert problems(tree, "docs/b.md", wrong) == [
        "operations.md has no heading #what-is-it-2",
        "there is no gone.md",
    ]


def test_what_a_page_names_of_itself_and_of_the_tree_is_there(tree: Path):
    """Paths in backticks, names of files alone, and headings of the same page."""
    (tree / "core").mkdir()
    names = "`core/`, `core/gone.py`, `claim.lua`, `lost.lua`, `/url.js`"
    text = f'## Held\n\nsee "Held" and "Let go" below; {names}\n'
    (tree / "docs" / "c.md").write_text(text)
    assert problems(tree, "docs/c.md", text) == [
        'this page has no heading "Let go"',
        "there is no core/gone.py",
        "there is no lost.lua",
    ]
