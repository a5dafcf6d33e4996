"""Which change needs the long form of the tests."""

import subprocess
from pathlib import Path

import pytest

from scripts import needs_long
from scripts.needs_long import REASONS, ROOT, changed_since, command, reasons


def git(folder: Path, *arguments: str) -> None:
    own = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *own, *arguments], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("file", "tests"),
    {
        "engine/queue/lua/claim.lua": "tests/chaos tests/conformance tests/engine",
        "billing/quota/lua/admit.lua": "tests/billing tests/chaos",
        "server/session/machine.py": "tests/conformance tests/server",
        "core/migrations/versions/v0099_x.py": "tests/admin tests/billing tests/core tests/security",
        "chaos/installation/cluster.py": "tests/chaos",
    }.items(),
)
def test_a_change_names_its_tests(file: str, tests: str) -> None:
    """By the command that runs their long form."""
    assert command(reasons(["README.md", file])) == f'make test-long ARGS="{tests}"'


def test_what_all_stand_on_needs_all() -> None:
    """Whatever else changed."""
    assert (
        command(reasons(["tests/support/patience.py", "chaos/installation/cluster.py"])) == "make test-long"
    )


def test_most_changes_need_none() -> None:
    """Pages, the browser's code, and packages whose tests are all in the short form."""
    assert not reasons(["README.md", "engine/queue/lua/README.md", "server/web/page.js", "admin/console.py"])


def test_each_reason_is_about_something() -> None:
    """A path that moved would be a reason that never comes."""
    for reason in REASONS:
        for path in reason.paths:
            assert list(ROOT.glob(f"{path}*")), path
        assert all((ROOT / folder).is_dir() for folder in reason.tests), reason


def test_what_changed_is_committed_or_not_or_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Since the branch left main; what main got meanwhile is not this change's."""
    git(tmp_path, "init", "-q", "-b", "main")
    for name in ("a", "b"):
        (tmp_path / name).write_text("1")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "checkout", "-qb", "mine")
    (tmp_path / "a").write_text("2")
    git(tmp_path, "commit", "-qam", "mine")
    git(tmp_path, "checkout", "-q", "main")
    (tmp_path / "theirs").write_text("1")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "theirs")
    git(tmp_path, "checkout", "-q", "mine")
    (tmp_path / "b").write_text("2")
    (tmp_path / "chaos").mkdir()
    (tmp_path / "chaos" / "new.py").write_text("1")
    assert changed_since("main", tmp_path) == ["a", "b", "chaos/new.py"]
    with pytest.raises(SystemExit) as ended:
        changed_since("nowhere", tmp_path)
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("files", "code", "says"), [(["chaos/x.py"], 0, "make test-long"), (["x"], 1, "enough")]
)
def test_the_exit_code_answers(
    files: list[str],
    code: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """0: it needs the long form."""
    monkeypatch.setattr(needs_long, "changed_since", lambda base: files if base == "b" else [])  # pyright: ignore[reportUnknownLambdaType]
    assert needs_long.main(["--base", "b"]) == code
    assert says in capsys.readouterr().out
