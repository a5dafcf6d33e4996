"""luacheck's warnings are told where they stand, and what one script does not need of a prelude is none."""

from scripts import lua
from scripts.lua import ROOT, Warned, place_of, warnings_of, worth_saying

RELEASE = "billing/quota/lua/release.lua"
BASE = "billing/quota/lua/prelude/base.lua"


def test_each_line_of_a_whole_script_is_found_where_it_was_written():
    """In its own file, or in the prelude that has it."""
    scripts = [each for each in lua.load_scripts() if all(ROOT in file.parents for file in each.files)]
    assert {str(each.files[0].relative_to(ROOT)) for each in scripts} >= {
        RELEASE,
        "engine/queue/lua/claim.lua",
    }
    for script in scripts:
        for number, line in enumerate(script.source.split("\n"), 1):
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
