"""luacheck's warnings are told where they stand, and what one script does not need of a prelude is none."""

from pathlib import Path

from core.redis.script_calls import ScriptCall
from core.redis.scripts import Script
from scripts import lua, lua_headers
from scripts.lua import ROOT, Warned, place_of, warnings_of, worth_saying

RELEASE = "billing/quota/lua/release.lua"
BASE = "billing/quota/lua/prelude/base.lua"


def test_each_line_of_a_whole_script_is_found_where_it_was_written():
    """In its own file, or in the prelude that has it."""
    scripts = lua.load_scripts()
    assert {str(each.files[0].relative_to(ROOT)) for each in scripts} >= {
        RELEASE,
        "engine/queue/lua/claim.lua",
    }
    for script in scripts:
        assert place_of(script, lua.MADE_LINE) == place_of(script, 1)  # `args` are of no file
        for number, line in enumerate(script.source.split("\n"), 1):
            if number == lua.MADE_LINE:
                continue
            file, there = place_of(script, number)
            assert (ROOT / file).read_text().split("\n")[there - 1] == line, (script.name, number)


def test_every_lua_file_is_part_of_a_script():
    """None is left out of the check."""
    parts = {str(file) for script in lua.load_scripts() for file in script.files}
    assert {str(ROOT / name) for name in lua.lua_files()} <= parts


def test_a_warning_is_read_with_its_place():
    """What is no warning is not taken for one."""
    script = next(each for each in lua.load_scripts() if each.name == "release")
    last = len(script.source.split("\n")) - 1
    said = [f"/x/y.lua:{last}:3: (W113) accessing undefined variable 'nwo'", "Total: 1 warning"]
    (found,) = warnings_of(script, said)
    text = (ROOT / RELEASE).read_text().split("\n")
    assert found == Warned(RELEASE, len(text) - 1, "W113", "accessing undefined variable 'nwo'")
    assert str(found) == f"{RELEASE}:{len(text) - 1}: accessing undefined variable 'nwo' (W113)"


def test_what_some_script_needs_is_not_unused():
    """What none needs is; and what is wrong in one is wrong."""
    unused, wrong = Warned(BASE, 3, "W211", "unused"), Warned(BASE, 9, "W113", "undefined")
    assert worth_saying({"a": {unused}, "b": set()}, {BASE: 2}) == []
    assert worth_saying({"a": {unused}, "b": {unused}}, {BASE: 2}) == [unused]
    assert worth_saying({"a": {wrong}, "b": set()}, {BASE: 2}) == [wrong]


class HoldCall(ScriptCall, kw_only=True):
    now_ms: int
    tokens: list[bytes]


def a_script(folder: Path, body: str) -> Script[HoldCall, int]:
    (file := folder / "hold.lua").write_text(f"#!lua\n{body}")
    return Script(file, HoldCall, int)


def test_what_a_script_reads_is_what_it_is_given(tmp_path: Path):
    """A field by a wrong name would be nil; one that nobody reads is sent for nothing."""
    assert lua_headers.unread(a_script(tmp_path, "return args.now_ms + #args.tokens")) == []
    assert lua_headers.unread(a_script(tmp_path, "return args.now + #args.tokens")) == [
        "hold.lua: HoldCall has no field `now`",
        "hold.lua: nothing reads HoldCall.now_ms",
    ]
    by_name = "for _, name in ipairs({ 'now_ms', 'tokens' }) do call('SET', KEYS[1], args[name]) end"
    assert lua_headers.unread(a_script(tmp_path, by_name)) == []


def test_a_header_takes_the_place_of_the_old_one(tmp_path: Path):
    """The script's own words stay; what is up to date is not written again."""
    script = a_script(tmp_path, "--: args: nothing\n-- Holds tokens.\nreturn args.now_ms + #args.tokens\n")
    wanted = "#!lua\n--: args: now_ms:int, tokens:[bytes]\n--: reply: int\n-- Holds tokens.\n"
    file = script.files[0]
    assert lua_headers.problems([script], tmp_path) == ["hold.lua: its header is old: make format"]
    for _ in range(2):
        lua_headers.write([script])
        assert file.read_text() == wanted + "return args.now_ms + #args.tokens\n"
    assert lua_headers.problems([script], tmp_path) == []


def test_a_long_header_goes_on_in_the_next_line():
    """No line is longer than Lua's may be, and no field is broken."""
    script = next(each for each in lua.load_scripts() if each.name == "enqueue")
    lines = lua_headers.header(script)
    assert max(map(len, lines)) <= lua_headers.WIDTH
    assert " ".join(line.removeprefix("--:").strip() for line in lines[:-1]).count("tenant:str") == 1
    assert lines[1].startswith("--:   ")
