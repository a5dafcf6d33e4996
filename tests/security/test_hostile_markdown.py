"""What a model says may be written to stop the page: the time to show it grows with its length, no faster."""

import json
from pathlib import Path

from scripts.javascript import find_node
from tests.support.patience import START_SECONDS, finished

WEB = Path(__file__).parents[2] / "server" / "web"
CHARACTERS = 200_000
# A squared length would take minutes. Each text takes well under a second.
# One of each repetition that a pattern or a loop of the page could look at again and again.
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
)
SHOW = """
const { parseBlocks } = await import(process.argv[1] + "/blocks.js");
const { shape } = await import(process.argv[1] + "/shapes.js");
const text = await new Response(process.stdin).json();
for (const [at, each] of text.entries()) {
  const began = process.cpuUsage().user;
  for (const growing of [true, false]) {
    for (const block of parseBlocks(each.split("\\n"))) shape(block, growing, { level: 2 });
  }
  console.log(at, Math.round((process.cpuUsage().user - began) / 1000), "ms");
}
"""


def test_the_time_to_show_a_text_grows_with_its_length():
    """Headings, fences, rows, items, links, emphasis: none stops the page, none exhausts its stack."""
    node, _ = find_node()
    texts = [start + part * (CHARACTERS // len(part)) + end for start, part, end in PARTS]
    command = [*node, "--input-type=module", "--eval", SHOW, str(WEB)]
    done = finished(command, START_SECONDS, json.dumps(texts))
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == len(PARTS)
