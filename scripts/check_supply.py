"""Looks up what is known of what we install: holes of the packages, digests of the images. `make audit`.

Exit code 0: all was looked up and nothing is known; 1: holes are known; 2: something could not be looked up,
and is named. What was not looked up is never said to be fine.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from scripts.javascript import find_node, reason, surroundings
from scripts.sbom import PIN, ROOT, images

LOCKS = ("base", "build", "cpu", "gpu", "test")
AUDITOR = "pip-audit==2.10.1"
SECONDS_MAX = 600
REASON_CHARACTERS = 300


class Found(NamedTuple):
    """What one look-up said: lines to print, holes known, and what could not be looked up."""

    lines: list[str]
    holes: int = 0
    missing: int = 0


def main() -> int:
    """The exit code, after printing everything."""
    with tempfile.TemporaryDirectory() as folder:
        program = _auditor(Path(folder))
        found = [audit(lock, program, Path(folder)) for lock in LOCKS]
    found.append(audit_npm())
    found += [digest(image) for image in images()]
    for each in found:
        print("\n".join(each.lines))
    holes, missing = sum(each.holes for each in found), sum(each.missing for each in found)
    print(f"{holes} known holes; {missing} could NOT be looked up" if missing else f"{holes} known holes")
    return 1 if holes else 2 if missing else 0


def _auditor(folder: Path) -> Path | str:
    """pip-audit, or why there is none."""
    done = _run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), AUDITOR])
    return f"no {AUDITOR}: {done}" if isinstance(done, str) else folder / "bin" / "pip-audit"


def audit(lock: str, program: Path | str, folder: Path) -> Found:
    """The known holes of one lock's packages."""
    if isinstance(program, str):
        return Found([f"{lock}.txt: NOT looked up: {program}"], missing=1)
    pins = [f"{pin[1]}=={pin[2].partition('+')[0]}" for pin in PIN.finditer(_lock(lock).read_text())]
    plain, report = folder / f"{lock}.txt", folder / f"{lock}.json"
    plain.write_text("\n".join(pins))
    command = [sys.executable, str(program), "--requirement", str(plain), "--no-deps", "--disable-pip"]
    environment = {"PYTHONPATH": str(folder)}
    command += ["--format", "json", "--output", str(report), "--progress-spinner", "off"]
    done = _run(command, environment)
    if not report.is_file():
        why = done if isinstance(done, str) else "no report"
        return Found([f"{lock}.txt: NOT looked up: {why}"], missing=1)
    return verdict(lock, json.loads(report.read_text()), len(pins))


def verdict(lock: str, report: dict[str, Any], pins: int) -> Found:
    """What a report of pip-audit means. A package that it passed over, or left out, was not looked up."""
    asked: list[dict[str, Any]] = report.get("dependencies", [])
    passed_over = [each for each in asked if "skip_reason" in each]
    skipped = [f"{each['name']}: NOT looked up: {each['skip_reason']}" for each in passed_over]
    holes = [
        f"{each['name']} {each['version']}: {hole['id']}, {_mended(hole)}"
        for each in asked
        for hole in each.get("vulns", [])
    ]
    left_out = pins - len(asked)
    if left_out:
        skipped.append(f"{left_out} packages are not in the report: NOT looked up")
    said = f"{lock}.txt: {len(asked) - len(passed_over)} of {pins} packages looked up"
    return Found([said, *skipped, *holes], len(holes), len(passed_over) + left_out)


def audit_npm() -> Found:
    """The known holes of package-lock.json's packages: what the chat page is made of, and what builds it."""
    node, npm = find_node()
    command = [*npm, "audit", "--json"]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
            env=surroundings(node),
        )
    except subprocess.TimeoutExpired:
        return npm_verdict("", f"no answer in {SECONDS_MAX} s")
    return npm_verdict(done.stdout, reason(done.stderr))


def npm_verdict(report: str, why: str) -> Found:
    """What a report of `npm audit` means, or why there is none."""
    try:
        told: dict[str, Any] = json.loads(report)
        found: dict[str, Any] = told["vulnerabilities"]
        total: int = told["metadata"]["dependencies"]["total"]
    except (ValueError, KeyError):
        return Found([f"package-lock.json: NOT looked up: {why}"], missing=1)
    holes = [
        f"{name}: {hole['title']}, {hole['url']}"
        for name, each in found.items()
        for hole in each["via"]
        if isinstance(hole, dict)
    ]
    return Found([f"package-lock.json: {total} packages looked up", *holes], len(holes))


def _mended(hole: dict[str, Any]) -> str:
    versions = hole.get("fix_versions", [])
    return f"mended in {', '.join(versions)}" if versions else "mended nowhere yet"


def digest(image: str) -> Found:
    """Which digest a tag stands for now, beside the one that the file names."""
    tagged, _, pinned = image.partition("@")
    asked = ["docker", "buildx", "imagetools", "inspect", tagged, "--format", "{{.Manifest.Digest}}"]
    if shutil.which("docker") is None:
        asked = ["skopeo", "inspect", "--format", "{{.Digest}}", f"docker://{tagged}"]
    done = _run(asked)
    if isinstance(done, str):
        return Found([f"{image}: digest NOT looked up: {done}"], missing=1)
    now = done.stdout.strip()
    if pinned:
        return Found([f"{image}: the tag stands for {now} now" if now != pinned else f"{image}: unchanged"])
    return Found([f"{image}: pin it as {tagged}@{now}"])


def _run(
    command: list[str], environment: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str] | str":
    """What a command did, or why it did not."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
            env=os.environ | (environment or {}),
        )
    except FileNotFoundError:
        return f"there is no {command[0]} here"
    except subprocess.TimeoutExpired:
        return f"no answer in {SECONDS_MAX} s"
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    reason = " … ".join(dict.fromkeys([lines[0], lines[-1]]))
    return reason[:REASON_CHARACTERS] if done.returncode else done


def _lock(name: str) -> Path:
    return ROOT / "requirements" / f"{name}.txt"


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    sys.exit(main())
