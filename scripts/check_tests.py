"""Fails where a test depends on real time: a deadline of its own, a real clock, a shortened setting; and
where one test file imports another.

Tests wait through tests/support/patience.py, with its constants. What stands against a rule is listed in
tests/real_time.yaml under its reason; an entry that no longer stands fails too: the list only shrinks.
`--list` prints all that stands, as entries. What several test files need stands beside them in a file of its
own, or in tests/support.
"""

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
SUPPORT = "tests/support/"
REMEDY = "wait by tests/support/patience.py with its constants, or say in tests/real_time.yaml why not"
APART = "put what both need into a file of its own beside them, or into tests/support"
ALLOWED = ROOT / "tests" / "real_time.yaml"
SHORT_SECONDS = 5.0
BARE = {"asyncio.timeout", "asyncio.timeout_at", "asyncio.wait_for", "time.sleep"}
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time", "time_ns", "process_time"}
PATIENT = {"patience", "soon", "pause", "wait_until", "watch_until", "said", "ended", "finished"}
WAITS = {"wait", "result", "join", "set_default_timeout"}  # of processes, futures, threads, pages
PROFILE = {"deadline", "derandomize", "suppress_health_check", "print_blob"}
# How often something looks: looking more often makes nothing due that was not due before.
LOOKS = {
    "delta_interval_ms",
    "key_check_seconds",
    "noisy_check_seconds",
    "poll_interval_seconds",
    "reap_interval_ms",
    "terms_seconds",
    "worker_flush_ms",
}
ASKED = {"deadline_ms", "cancel_after_ms"}  # of a request


def settings() -> set[str]:
    """The settings that are times."""
    trees = (ast.parse(path.read_text()) for path in (ROOT / "core" / "configuration").glob("*_settings.py"))
    targets = (each.target for tree in trees for each in ast.walk(tree) if isinstance(each, ast.AnnAssign))
    return {each.id for each in targets if isinstance(each, ast.Name) and _is_time(each.id)} - LOOKS


def problems_of(path: str, text: str, times: set[str]) -> set[str]:
    """What stands in a test's file against the rules, each as its own source."""
    tree = ast.parse(text)
    local = {
        target.id
        for statement in tree.body
        if isinstance(statement, ast.Assign) and _is_number(statement.value)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    found = {_shown(node) for node in ast.walk(tree) for _ in _broken(node, local, times)}
    return {f"{path} {each}" for each in found}


def imported_tests(text: str) -> list[str]:
    """The test files that a file of this text imports. Pure but for looking which files there are."""
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    named = [
        f"{node.module}.{each.name}" if isinstance(node, ast.ImportFrom) else each.name
        for node in imports
        for each in node.names
    ]
    return sorted({name for name in named if _names_a_test(name)})


def _names_a_test(dotted: str) -> bool:
    package, *parts = dotted.split(".")
    return package == "tests" and any((ROOT / _file(parts[:to])).is_file() for to in range(1, len(parts) + 1))


def _file(parts: list[str]) -> str:
    return "/".join(["tests", *parts[:-1], f"{parts[-1]}.py"]) if parts[-1].startswith("test_") else "-"


def _broken(node: ast.AST, local: set[str], times: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Call):
        if _is_deadline(node, local) or _is_clock(node) or _is_profile(node):
            yield "call"
        if _callee(node).endswith("setattr") and _is_short_time(_text(node.args[-2]), node.args[-1]):
            yield "setattr"
    if isinstance(node, ast.keyword) and node.arg and _is_setting(node.arg, times):
        yield from ["keyword"] * _is_short_time(node.arg, node.value)
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            name = _text(key).removeprefix("PARLEY_").lower() if key else ""
            if _is_setting(name, times) and _is_short_time(name, value):
                yield "entry"


def _is_deadline(call: ast.Call, local: set[str]) -> bool:
    name, last = _callee(call), _callee(call).rpartition(".")[2]
    if name in BARE:
        return True
    if name == "asyncio.sleep":
        return not (call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)
    given = [each.value for each in call.keywords if each.arg in ("timeout", "seconds", "seconds_max")]
    if last in PATIENT or name == "pytest.mark.timeout":
        given += call.args if last in ("pause", "patience", "timeout") else call.args[1:2]
    elif last in WAITS and not _text(call.func.value if isinstance(call.func, ast.Attribute) else None):
        given += call.args[:1]
    else:
        given = [each.value for each in call.keywords if each.arg == "timeout"]
    return any(_is_number(each) or _mentions(each, local) for each in given)


def _is_clock(call: ast.Call) -> bool:
    module, _, last = _callee(call).rpartition(".")
    return last in CLOCKS and (module == "time" or "loop" in module or (not module and last not in ("time",)))


def _is_profile(call: ast.Call) -> bool:
    named = {each.arg for each in call.keywords}
    return _callee(call).rpartition(".")[2] in ("settings", "hypothesis_settings") and bool(named & PROFILE)


def _is_setting(name: str, times: set[str]) -> bool:
    return name.removeprefix("PARLEY_").lower() in times or name in ASKED


def _is_time(name: str) -> bool:
    name = name.lower().removesuffix("_max").removesuffix("_min")
    return name.endswith(("_seconds", "_ms"))


def _is_short_time(name: str, value: ast.expr) -> bool:
    if not _is_time(name):
        return False
    try:
        number = float(ast.literal_eval(value))
    except (ValueError, TypeError, SyntaxError):
        return False
    unit = 0.001 if "_ms" in name.lower() else 1.0
    return 0 < number * unit < SHORT_SECONDS


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _mentions(node: ast.expr, local: set[str]) -> bool:
    return any(isinstance(each, ast.Name) and each.id in local for each in ast.walk(node))


def _callee(call: ast.Call) -> str:
    return ast.unparse(call.func)


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _shown(node: ast.AST) -> str:
    shown = " ".join(ast.unparse(node).split())
    return shown if len(shown) <= 90 else shown[:89] + "…"


def main(show_all: bool) -> int:
    """1 where anything is wrong, after naming all of it."""
    times, standing, imported = settings(), set[str](), list[str]()
    for file in sorted((ROOT / "tests").rglob("*.py")):
        path = file.relative_to(ROOT).as_posix()
        if not path.startswith(SUPPORT):
            standing |= problems_of(path, file.read_text(), times)
        imported += [f"{path} imports {each}: {APART}" for each in imported_tests(file.read_text())]
    if show_all:
        print("\n".join(f"- {each!r}" for each in sorted(standing)))
        return 0
    listed: dict[str, list[str]] = yaml.safe_load(ALLOWED.read_text()) or {}
    allowed = {each for entries in listed.values() for each in entries}
    gone = allowed - standing
    problems = [f"{each} depends on real time" for each in sorted(standing - allowed)]
    problems += [REMEDY] * bool(problems) + imported
    problems += [f"{ALLOWED.name}: {each!r} no longer stands: strike it out" for each in sorted(gone)]
    good = f"no test depends on real time but for {len(allowed)} that say why, and none imports another"
    print("\n".join(problems) or good)
    return 1 if problems else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print all that stands, as entries")
    sys.exit(main(parser.parse_args().list))
