"""Fails where a page, docstring or comment names a page, heading or file of ours that does not exist.

Looked at are links of Markdown (`[text](page.md#heading)`), `docs/page.md` anywhere, with a heading behind it
in quotes (`docs/page.md, "Heading"`; the bold words that begin a paragraph are one too), and in Markdown
paths and names of files in backticks, and `see "Heading"` of the same page.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path

from scripts.working_tree import files

ROOT = Path(__file__).parent.parent
KINDS = {".py", ".lua", ".js", ".ts", ".md", ".yaml", ".yml", ".toml", ".css", ".html", ""}
EXAMPLES = {"scripts/check_references.py", "tests/docs/test_references.py"}  # they name what does not exist
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+?) *$", re.MULTILINE)
LEAD = re.compile(r"^(?:- |\d+\. )?\*\*(.+?)[.:]?\*\*", re.MULTILINE)
PAGE = re.compile(r"\bdocs/([\w-]+)\.md\b")
QUOTED = re.compile(r"\bdocs/([\w-]+)\.md,?[\s#*/-]+\(?\"([^\"]+)\"")
UNQUOTED = re.compile(r"\bdocs/[\w-]+\.md, (?!\")([^()\"`\n]+)\)")
OF_THIS_PAGE = re.compile(r"\bsee ((?:\"[^\"]+\"(?:, | and )?)+)")
FILE = re.compile(r"`([\w.-][\w./-]*\.(?:py|lua|js|css|html|yaml|yml))`")
FOLDER = re.compile(r"`((?:core|billing|engine|server|admin|chaos|clients|tests|scripts|docs)/[\w/-]*)`")


def main() -> int:
    """1 where anything is wrong, after naming all of it."""
    problems: list[str] = []
    looked_at = 0
    tree = files(ROOT)
    names = {"/".join(parts[at:]) for parts in map(_parts, tree) for at in range(len(parts))}
    for name in tree:
        path = ROOT / name
        if path.suffix in KINDS and name not in EXAMPLES and path.is_file() and not path.is_symlink():
            looked_at += 1
            problems += [f"{name}: {each}" for each in problems_of(path, path.read_text(), names)]
    print("\n".join(problems or [f"what {looked_at} files refer to exists"]))
    return 1 if problems else 0


def problems_of(path: Path, text: str, names: Set[str]) -> Iterator[str]:
    """What is wrong with one file's references. `names`: of all files, with any of their folders."""
    for page in sorted(set(PAGE.findall(text))):
        if not (ROOT / "docs" / f"{page}.md").is_file():
            yield f"there is no docs/{page}.md"
    for page, heading in QUOTED.findall(text):
        if not has(ROOT / "docs" / f"{page}.md", heading):
            yield f'docs/{page}.md has no heading "{_flat(heading)}"'
    for heading in UNQUOTED.findall(text):
        yield f"put the heading in quotes: {heading}"
    if path.suffix == ".md":
        yield from _of_markdown(path, FENCED.sub("", text), names)


def _of_markdown(path: Path, text: str, names: Set[str]) -> Iterator[str]:
    for link in LINK.findall(CODE.sub("", text)):
        if problem := _of_link(path, link):
            yield problem
    for heading in re.findall(r'"([^"]+)"', " ".join(OF_THIS_PAGE.findall(text))):
        if not has(path, heading):
            yield f'this page has no heading "{heading}"'
    for named in FOLDER.findall(text):
        if not (ROOT / named).is_dir():
            yield f"there is no {named}"
    for named in FILE.findall(text):
        if named not in names and not (ROOT / named).exists():
            yield f"there is no {named}"


def _of_link(path: Path, link: str) -> str:
    """What is wrong with it; empty: nothing, or it leads elsewhere."""
    if re.match(r"[a-z]+:", link):
        return ""
    name, _, anchor = link.partition("#")
    target = (path.parent / name).resolve() if name else path
    if not target.exists():
        return f"there is no {link}"
    if anchor and anchor not in anchors(target):
        return f"{target.name} has no heading #{anchor}"
    return ""


def has(page: Path, heading: str) -> bool:
    """Whether a page has this heading, or a paragraph that begins with it in bold."""
    return page.is_file() and _flat(heading).lower() in headings(page)


@cache
def headings(page: Path) -> frozenset[str]:
    """The headings of a page and the bold beginnings of its paragraphs, in small letters."""
    text = FENCED.sub("", page.read_text())
    return frozenset(each.replace("`", "").lower() for each in HEADING.findall(text) + LEAD.findall(text))


@cache
def anchors(page: Path) -> frozenset[str]:
    """What a link to a heading of a page ends with, as GitHub makes it."""
    made: list[str] = []
    for heading in HEADING.findall(FENCED.sub("", page.read_text())):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        made.append(f"{slug}-{made.count(slug)}" if slug in made else slug)
    return frozenset(made)


def _parts(name: str) -> tuple[str, ...]:
    return Path(name).parts


def _flat(heading: str) -> str:
    """One that is broken over lines of a comment, as one line."""
    return re.sub(r"\s*\n[\s#*/-]*", " ", heading).rstrip(",.").replace("`", "")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    sys.exit(main())
