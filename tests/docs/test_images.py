"""Dockerfile and docker-compose.yml name stages, files and commands that are there."""

import re
import shlex
import tomllib
from collections.abc import Generator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from tests.billing.cli.audited_office import COMMANDS, named

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
IGNORED = [line.removeprefix("**/") for line in (ROOT / ".dockerignore").read_text().split()]
LINES = DOCKERFILE.replace("\\\n", " ").splitlines()


def copied() -> list[str]:
    """What images take out of this folder."""
    orders = [line.split()[1:-1] for line in LINES if line.startswith("COPY ")]
    return [name for order in orders if not order[0].startswith("--from") for name in order]


def is_ignored(path: str) -> bool:
    """Whether .dockerignore keeps it, or a folder of it, out of what is sent."""
    return any(fnmatch(part, pattern) for part in path.removeprefix("./").split("/") for pattern in IGNORED)


def commands() -> Generator[list[str]]:
    """The words after `parley` of each command that a service runs."""
    for service in SERVICES.values():
        told = service.get("command", [])
        if "entrypoint" in service:
            yield from (shlex.split(each) for each in re.findall(r"\bparley ([^|>&\n]+)", "\n".join(told)))
        elif not service.get("image", "").startswith(("postgres:", "valkey/")) and told:
            yield told


def test_what_images_copy_and_install_is_there() -> None:
    """Files, locks, and folders that are built: none is left out of what Docker is sent."""
    named = [*copied(), *re.findall(r"requirements/\w+\.txt", DOCKERFILE)]
    built = re.search(r"pip wheel .* (\S+) (\S+)$", DOCKERFILE, re.MULTILINE)
    assert built
    named += [f"{folder}/pyproject.toml" for folder in built.groups()]
    assert {"requirements/base.txt", "requirements/cpu.txt", "requirements/gpu.txt"} <= set(named)
    assert [name for name in named if not (ROOT / name).exists() or is_ignored(name)] == []


def test_what_the_wheels_are_built_of_is_sent() -> None:
    """Rooms, the browser's client, readmes."""
    for folder in (ROOT, ROOT / "clients" / "python"):
        project = tomllib.loads((folder / "pyproject.toml").read_text())
        wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
        named = [project["project"]["readme"], *wheel.get("only-include", wheel.get("packages", []))]
        assert len(named) > 1
        assert [name for name in named if not (folder / name).exists() or is_ignored(name)] == []


def test_each_stage_that_is_named_is_there() -> None:
    """By COPY --from, by FROM and by the services."""
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE))
    begun = set(re.findall(r"^FROM ([\w-]+) AS", DOCKERFILE, re.MULTILINE))
    taken = set(re.findall(r"COPY --from=(\S+)", DOCKERFILE))
    targets = {service["build"]["target"] for service in SERVICES.values() if "build" in service}
    assert begun | taken | targets <= stages
    assert targets == {"base", "cpu"}


def test_each_command_of_a_service_is_one_with_these_options() -> None:
    """As click knows them."""
    asked = [*commands(), ["gateway"]]  # the image's own
    assert '\nENTRYPOINT ["parley"]\nCMD ["gateway"]' in DOCKERFILE
    assert {words[0] for words in asked} >= {
        "redis",
        "db",
        "secrets",
        "models",
        "worker",
        "supervisor",
        "biller",
    }
    for words in asked:
        name = named(" ".join(words))
        options = {text for each in COMMANDS[name].params for text in (*each.opts, *each.secondary_opts)}
        assert [word for word in words if word.startswith("--") and word not in options] == [], name
