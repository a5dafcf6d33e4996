"""What is installed is what was locked, and nobody is told that something was looked up which was not."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts import check_supply, sbom
from scripts.lock import OURS

REQUIREMENTS = Path(__file__).parents[2] / "requirements"


@pytest.mark.parametrize("lock", ["base", "build", "test"])
def test_each_package_has_hashes(lock: str):
    """Those of all files of the version; setup.py and the Dockerfile install nothing else."""
    for part in sbom.packages(lock):
        assert part["hashes"], part["name"]
        assert all(re.fullmatch("[0-9a-f]{64}", each["content"]) for each in part["hashes"])
    text = (REQUIREMENTS / f"{lock}.txt").read_text()
    assert len(sbom.packages(lock)) == text.count("==")


@pytest.mark.parametrize(
    ("wanted", "locks"),
    [("base", ["base"]), ("cpu", ["base", "cpu"]), ("test", ["base", "build", "cpu", "test"])],
)
def test_all_that_is_asked_for_is_locked(wanted: str, locks: list[str]):
    """The gateway's image has base alone: what only the worker's lock holds is missing there. Our own client
    is built beside the platform."""
    project = tomllib.loads((REQUIREMENTS.parent / "pyproject.toml").read_text())
    extras, groups = project["project"]["optional-dependencies"], project["dependency-groups"]
    asked = {"base": project["project"]["dependencies"], "cpu": extras["cpu"], "test": groups["test"]}[wanted]
    locked = {canonicalize_name(part["name"]) for lock in locks for part in sbom.packages(lock)}
    assert {canonicalize_name(Requirement(each).name) for each in asked} - locked <= OURS


def test_images_install_by_hashes():
    """Where the lock has them."""
    dockerfile = (REQUIREMENTS.parent / "Dockerfile").read_text()
    installed = [line for line in dockerfile.splitlines() if "-r requirements/base.txt" in line]
    assert installed
    assert all("--require-hashes" in line for line in installed)


def test_our_own_client_is_asked_of_no_index():
    """Whoever registered its name there would be installed into the gateway."""
    root = REQUIREMENTS.parent
    assert not any(part["name"] in OURS for lock in check_supply.LOCKS for part in sbom.packages(lock))
    built = [line for line in (root / "Dockerfile").read_text().splitlines() if "pip wheel" in line]
    assert [line.split()[-2:] for line in built] == [["./clients/python", "."]]
    assert all("--no-deps" in line for line in built)
    assert "--no-deps" in (root / "scripts" / "setup.py").read_text()


def test_the_bill_names_all_that_is_installed():
    """Packages of all stacks, checkers and images, once each, the same whenever it is printed."""
    bill = sbom.bill(["cpu", "test"])
    purls = [part["purl"] for part in bill["components"]]
    assert len(purls) == len(set(purls))
    assert bill == sbom.bill(["cpu", "test"])
    pinned = sum(
        (REQUIREMENTS / f"{lock}.txt").read_text().count("==") for lock in ("base", "build", "cpu", "test")
    )
    assert sum(purl.startswith("pkg:pypi/") for purl in purls) == pinned
    assert {purl.split("/")[0] for purl in purls} == {"pkg:pypi", "pkg:npm", "pkg:docker"}
    assert not any("$" in purl for purl in purls)


def test_what_was_not_looked_up_is_not_fine(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Without the auditor, without its report, and for what it passed over."""
    without = check_supply.audit("base", "there is no pip-audit", tmp_path)
    assert (without.missing, without.holes) == (1, 0)
    assert "NOT looked up" in without.lines[0]
    program = tmp_path / "ends"
    program.write_text("import sys; sys.exit('no network')")
    unreachable = check_supply.audit("build", program, tmp_path)
    assert (unreachable.missing, unreachable.lines) == (1, ["build.txt: NOT looked up: no network"])
    report = {
        "dependencies": [{"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "unknown"}]
    }
    partly = check_supply.verdict("base", report, 4)
    assert (partly.missing, partly.lines[0]) == (3, "base.txt: 1 of 4 packages looked up")
    assert capsys.readouterr().out == ""


def test_known_holes_are_named():
    """With the version that mends them."""
    hole = {"id": "CVE-1", "fix_versions": ["2"]}
    found = check_supply.verdict(
        "base", {"dependencies": [{"name": "a", "version": "1", "vulns": [hole]}]}, 1
    )
    assert (found.holes, found.missing) == (1, 0)
    assert found.lines == ["base.txt: 1 of 1 packages looked up", "a 1: CVE-1, mended in 2"]


def test_npms_holes_are_named_and_its_silence_is_not_fine():
    """By the advisory itself: what only depends on a holed package is not counted again."""
    hole = {"title": "ReDoS", "url": "https://github.com/advisories/GHSA-1"}
    found = {"a": {"via": [hole]}, "b": {"via": ["a"]}}
    report = {"vulnerabilities": found, "metadata": {"dependencies": {"total": 9}}}
    told = check_supply.npm_verdict(json.dumps(report), "")
    assert (told.holes, told.missing) == (1, 0)
    assert told.lines == ["package-lock.json: 9 packages looked up", f"a: ReDoS, {hole['url']}"]
    for silent in ("", "{}", '{"message": "404"}', "<html>"):
        unknown = check_supply.npm_verdict(silent, "no network")
        assert (unknown.missing, unknown.lines) == (1, ["package-lock.json: NOT looked up: no network"])


def test_a_digest_that_nobody_can_look_up_is_said(monkeypatch: pytest.MonkeyPatch):
    """Neither docker nor skopeo is here."""
    monkeypatch.setenv("PATH", "/nowhere")
    found = check_supply.digest("python:3.11")
    assert found.missing == 1
    assert found.lines == ["python:3.11: digest NOT looked up: there is no skopeo here"]
