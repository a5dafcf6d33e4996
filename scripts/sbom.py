"""Prints what an installation consists of, as a CycloneDX bill of materials: `python scripts/sbom.py cpu`.

It reads the locks alone, needs no network, and prints the same for the same locks. Of the locks that hold no
hashes (requirements/cpu.txt, gpu.txt) neither does it.
"""

import argparse
import base64
import json
import re
import tomllib
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PIN = re.compile(r"^([A-Za-z0-9._-]+)={2,3}([^\s\\]+)", re.MULTILINE)
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
FROM = re.compile(r"^FROM (\S+)", re.MULTILINE)
ARGUMENT = re.compile(r"^ARG (\w+)=(\S+)", re.MULTILINE)
IMAGE = re.compile(r"^ +image: (\S+)", re.MULTILINE)
OWN_IMAGE = "parley:"


def main(stacks: list[str]) -> None:
    """Print the bill of base and the named locks."""
    print(json.dumps(bill(stacks), indent=2))


def bill(stacks: list[str]) -> dict[str, Any]:
    """The bill of materials of base, build and these locks, of what npm installs, and of the images."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locks = dict.fromkeys(["base", "build", *stacks])
    parts = [part for lock in locks for part in packages(lock)] + npm_packages() + image_parts()
    name, version = project["name"], project["version"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([name, version, parts]))}",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": name, "version": version}},
        "components": parts,
    }


def packages(lock: str) -> list[dict[str, Any]]:
    """The Python packages of one lock, with the hashes of all files that may be installed for them."""
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    pins = list(PIN.finditer(text))
    ends = [pin.start() for pin in pins[1:]] + [len(text)]
    return [
        _part(
            lock, "pypi", pin[1], pin[2], [("SHA-256", each) for each in HASH.findall(text, pin.end(), end)]
        )
        for pin, end in zip(pins, ends, strict=True)
    ]


def npm_packages() -> list[dict[str, Any]]:
    """What the chat page is made of; excluded: what builds it, and what `make check` runs on Node."""
    lock = json.loads((ROOT / "package-lock.json").read_text())
    found: list[dict[str, Any]] = []
    for path, facts in lock["packages"].items():
        if path:
            name = path.rpartition("node_modules/")[2]
            content = base64.b64decode(facts["integrity"].removeprefix("sha512-")).hex()
            part = _part("package-lock.json", "npm", name, facts["version"], [("SHA-512", content)])
            stays_behind = {"dev", "devOptional", "peer"} & facts.keys()
            found.append(part | ({"scope": "excluded"} if stays_behind else {}))
    return found


def images() -> list[str]:
    """The images that the Dockerfile and the compose file begin from."""
    dockerfile = (ROOT / "Dockerfile").read_text()
    text = dockerfile
    for name, value in ARGUMENT.findall(dockerfile):
        text = text.replace(f"${{{name}}}", value)
    named = [*FROM.findall(text), *IMAGE.findall((ROOT / "docker-compose.yml").read_text())]
    return sorted({each for each in named if ":" in each and not each.startswith(OWN_IMAGE)})


def image_parts() -> list[dict[str, Any]]:
    """Of the images, by tag, and by digest where the file names one."""
    found: list[dict[str, Any]] = []
    for image in images():
        tagged, _, digest = image.partition("@sha256:")
        name, _, tag = tagged.rpartition(":")
        part = _part("images", "docker", name, tag, [("SHA-256", digest)] if digest else [])
        found.append(part | {"type": "container"})
    return found


def _part(source: str, kind: str, name: str, version: str, hashes: list[tuple[str, str]]) -> dict[str, Any]:
    purl = f"pkg:{kind}/{name.replace('@', '%40')}@{version.replace('+', '%2B')}"
    part: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
    }
    if hashes:
        part["hashes"] = [{"alg": algorithm, "content": content} for algorithm, content in hashes]
    return part | {"properties": [{"name": "parley:source", "value": source}]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("locks", nargs="*", default=["cpu"], help="beside base and build (cpu)")
    main(parser.parse_args().locks)
