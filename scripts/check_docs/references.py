"""References of pages, docstrings and comments to pages, headings and files.

Looked at are links of Markdown (`[text](page.md#heading)`), `docs/page.md` anywhere, with a heading behind it
in quotes (`docs/page.md, "Heading"`; the bold words that begin a paragraph are one too), and in Markdown
paths and names of files in backticks, and `see "Heading"` of the same page.
"""

import posixpath
import re
from collections.abc import Iterator
from functools import cache

from scripts.check_docs.tree import Fault, Tree, line_of

FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+?) *$", re.MULTILINE)
LEAD = re.compile(r"^(?:- |\d+\. )?\*\*(.+?)[.:]?\*\*", re.MULTILINE)
PAGE = re.compile(r"\bdocs/(?:[\w-]+/)*[\w-]+\.md\b")
QUOTED = re.compile(r"\b(docs/(?:[\w-]+/)*[\w-]+\.md),?[\s#*/-]+\(?\"([^\"]+)\"")
UNQUOTED = re.compile(r"\bdocs/(?:[\w-]+/)*[\w-]+\.md, (?!\")([^()\"`\n]+)\)")
OF_THIS_PAGE = re.compile(r"\bsee (?:\"[^\"]+\"(?:, | and )?)+")
FILE = re.compile(r"`([\w.-][\w./-]*\.(?:py|lua|js|css|html|yaml|yml))`")
FOLDER = re.compile(r"`((?:core|billing|engine|server|admin|chaos|clients|tests|scripts|docs)/[\w/-]*)`")


def faults(tree: Tree) -> Iterator[Fault]:
    """References of all files that lead nowhere."""
    for name in tree.texts:
        yield from faults_in(name, tree)


def faults_in(name: str, tree: Tree) -> Iterator[Fault]:
    """References of one file that lead nowhere."""
    text = tree.texts[name]
    for found in PAGE.finditer(text):
        if found[0] not in tree.files:
            yield Fault(
                name, line_of(text, found.start()), f"there is no {found[0]}: name the page it is in now"
            )
    for found in QUOTED.finditer(text):
        page, heading = found[1], _flat(found[2])
        if page in tree.files and not _has(tree.texts[page], heading):
            yield Fault(
                name, line_of(text, found.start()), f'{page} has no heading "{heading}": name one it has'
            )
    for found in UNQUOTED.finditer(text):
        yield Fault(name, line_of(text, found.start()), f"put the heading in quotes: {found[1]}")
    if name.endswith(".md"):
        yield from _of_markdown(name, FENCED.sub(_blank, text), tree)


def _of_markdown(name: str, text: str, tree: Tree) -> Iterator[Fault]:
    for found in LINK.finditer(CODE.sub(lambda code: " " * len(code[0]), text)):
        if problem := _of_link(name, found[1], tree):
            yield Fault(name, line_of(text, found.start()), f"{problem}: mend the link")
    for found in OF_THIS_PAGE.finditer(text):
        for heading in re.findall(r'"([^"]+)"', found[0]):
            if not _has(text, _flat(heading)):
                what = f'this page has no heading "{heading}": name one it has'
                yield Fault(name, line_of(text, found.start()), what)
    for found in FOLDER.finditer(text):
        if found[1].rstrip("/") not in tree.folders | tree.files:
            yield Fault(
                name, line_of(text, found.start()), f"there is no {found[1]}: name the folder it is in now"
            )
    for found in FILE.finditer(text):
        if found[1] not in tree.endings:
            yield Fault(
                name, line_of(text, found.start()), f"there is no {found[1]}: name the file it is in now"
            )


def _of_link(name: str, link: str, tree: Tree) -> str:
    """The fault of a link; empty: none, or it leads elsewhere."""
    if re.match(r"[a-z]+:", link):
        return ""
    path, _, anchor = link.partition("#")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
    if target not in tree.files and target not in tree.folders:
        return f"there is no {link}"
    if anchor and anchor not in anchors(tree.texts.get(target, "")):
        return f"{target} has no heading #{anchor}"
    return ""


def _has(page: str, heading: str) -> bool:
    """A page has this heading, or a paragraph that begins with it in bold."""
    return heading.lower() in headings(page)


@cache
def headings(page: str) -> frozenset[str]:
    """The headings of a page and the bold beginnings of its paragraphs, in small letters."""
    text = FENCED.sub("", page)
    return frozenset(each.replace("`", "").lower() for each in HEADING.findall(text) + LEAD.findall(text))


@cache
def anchors(page: str) -> frozenset[str]:
    """The ends of links to the headings of a page, as GitHub makes them."""
    made: list[str] = []
    for heading in HEADING.findall(FENCED.sub("", page)):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        made.append(f"{slug}-{made.count(slug)}" if slug in made else slug)
    return frozenset(made)


def _blank(found: re.Match[str]) -> str:
    """Empty lines in place of a text, so that those behind it keep their numbers."""
    return "\n" * found[0].count("\n")


def _flat(heading: str) -> str:
    """A heading that is broken over lines of a comment, as one line."""
    return re.sub(r"\s*\n[\s#*/-]*", " ", heading).rstrip(",.").replace("`", "")
