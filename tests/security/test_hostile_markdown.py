"""What a model says may be written to stop the page: no block is read for long, whatever stands in it."""

import json
from pathlib import Path

from scripts.javascript import find_node, install
from tests.support.patience import START_SECONDS, finished

WEB = Path(__file__).parents[2] / "server" / "web"
CHARACTERS = 32_000  # longer blocks are not read at all
MS_MAX = 1000  # of CPU time; a squared length takes several seconds, and the page stops reading after 30 ms
# One of each repetition that the parser, or a rule or a pattern of the page, could look at again and again.
PARTS = (
    ("# x", " ", "y"),
    ("# ", " ", "\u2028x"),
    ("# a", " #", " x"),
    ("", "~", "`"),
    ("~~~", " ", "`"),
    ("", "`", "\n"),
    ("- ", " ", "\u2028x"),
    ("|-", " ", "x"),
    ("a|b\n-", "\t", "|x"),
    ("a|b\n", "|-", "x"),
    ("> a\n", "b\n", ""),
    ("- a\n", "b\n", ""),
    ("- a\n", "\n", "x"),
    ("", "- ", "a"),
    ("", "> ", "a"),
    ("` ", "a", "b`"),
    ("[a](", " ", "x y"),
    ("[a](b", " ", '"'),
    ("", "[](", ""),
    ("", "[a](b ", ")"),
    ("", "[", "]" * CHARACTERS),
    ("", "[a](http://b)", ""),
    ("[" * CHARACTERS, "[a](http://b)", ""),
    ("", "![", "](http://b)" * (CHARACTERS // 8)),
    ("", "*a ", " b*" * (CHARACTERS // 4)),
    ("", "**a *b ", " c* d**" * (CHARACTERS // 8)),
    ("", "http://a" + ")" * 2000 + " ", ""),
    ("", "<http://a", ""),
    ("", "*", "a"),
    ("", "a*", ""),
    ("**", "a", "*"),
    ("", "&amp", ""),
    ("", "\\", ""),
    ("", "|a|b|c|\n", ""),
    ("|a|b|c|\n|-|-|-|\n", "|a|b|c|\n", ""),
    ("|a" * 100 + "|\n" + "|-" * 100 + "|\n", "|x\n", ""),
    ("", "> " + "|a" * 655 + "|\n> " + "|-" * 655 + "|\n" + "> |\n" * 95 + ">\n", ""),
    ("", "> " + "|a" * 80 + "|\n> " + "|-" * 80 + "|\n" + "> |\n" * 80 + ">\n", ""),
    ("", "|" * 100 + "\n" + "|-" * 99 + "|\n", ("|" * 100 + "\n") * (CHARACTERS // 101)),
    ("", "- a\n", ""),
    ("", "# a\n", ""),
    ("", "#", ""),
    ("", ">", ""),
    ("", "*a_ ", ""),
    ("", "\\(", ""),
    ("", "\\[ ", ""),
    ("", "\\[\n", ""),
    ("", "$", ""),
    ("", "$a", ""),
    ("", "$$\n", ""),
    ("$$", "a\n", ""),
    ("", "$$a b$$ c\n", ""),
    ("", "https://a.example/b?c=d ", ""),
    ("https://a.example/", "(a[", ""),
    ("", "重**要，**", ""),
    ("", "[a]: http://b\n", ""),
    ("", "[a\n", ""),
    ("", "<a@b.c>", ""),
    ("", "<br", ""),
    ("", "<sub>", ""),
    ("", "<sub>a", "</sup>"),
    ("", "<sub>a<sup>b", "</sup></sub>"),
    ("- a\n", "  - b\n", ""),
)
SHOW = """
const by = await import(process.argv[1] + "/formatter.js");
const text = await new Response(process.stdin).json();
const limits = { characters: Infinity, tokens: 20_000, ms: 30 };
const user = () => process.cpuUsage().user / 1000;
for (const each of text) {
  let most = 0;
  for (const growing of [true, false]) {
    const outline = { level: 2, sources: new Set() };
    let began = user();
    const blocks = by.split(growing ? by.withoutHalfLine(each) : each, new Map()) ?? [];
    most = Math.max(most, user() - began);
    for (const block of blocks) {
      began = user();
      by.formatted(block, each, new Map(), outline, limits, growing);
      most = Math.max(most, user() - began);
    }
  }
  console.log(Math.round(most));
}
"""


def test_no_block_is_read_for_long():
    """Headings, fences, rows, items, links, emphasis: none stops the page, none exhausts its stack."""
    node, npm = find_node()
    install(node, npm)
    texts = [start + part * (CHARACTERS // len(part)) + end for start, part, end in PARTS]
    command = [*node, "--no-warnings", "--input-type=module", "--eval", SHOW, str(WEB)]
    done = finished(command, START_SECONDS, json.dumps(texts))
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-2000:]
    took = [int(line) for line in done.stdout.splitlines()]
    slow = {text[:30]: ms for text, ms in zip(texts, took, strict=True) if ms > MS_MAX}
    assert not slow
