"""docker-compose.yml gives each service what core/access/processes.py declares, and no more."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from core.access.processes import (
    BILLER,
    CONSOLE,
    FLEET,
    GATEWAY,
    MIGRATE,
    PORTAL,
    SUPERVISOR,
    WORKER,
    ProcessKind,
)
from core.configuration.settings import Settings
from core.files.secret_files import SUFFIX, secret_names

PAGE = Path(__file__).parents[2] / "docker-compose.yml"
SERVICES = [GATEWAY, WORKER, SUPERVISOR, FLEET, BILLER, CONSOLE, PORTAL, MIGRATE]
SECRETS = {f"PARLEY_{name.upper()}": name for name in secret_names(Settings)}


def name_of(process: ProcessKind) -> str:
    """The service's name is its kind's."""
    return process.name


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return yaml.safe_load(PAGE.read_text())["services"]


@pytest.mark.parametrize("process", SERVICES, ids=name_of)
def test_a_service_has_its_own_secrets(services: dict[str, Any], process: ProcessKind):
    """By variable or by file; the files that it is given are those that it names."""
    service = services[process.name]
    given = {name.removesuffix(SUFFIX) for name in service["environment"]} & set(SECRETS)
    assert {SECRETS[name] for name in given} <= set(process.secrets)
    files = [name for name in service["environment"].values() if str(name).startswith("/run/secrets/")]
    assert sorted(service.get("secrets", [])) == sorted(file.rpartition("/")[2] for file in files)


def test_only_who_has_a_reason_is_reached_from_outside(services: dict[str, Any]):
    """And only from this machine."""
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert set(published) == {"gateway", "console-operators", "console-tenants"}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)


def test_the_fleet_resizes_the_supervisor_that_runs(services: dict[str, Any]):
    """It obeys a controller of its node alone, which has no files to start one of its own by."""
    nodes = [services[name]["environment"]["PARLEY_NODE"] for name in ("supervisor", "fleet")]
    assert nodes == ["compose"] * 2
    assert "PARLEY_WORKER_REDIS_URL_FILE" not in services["fleet"]["environment"]
    assert "parley pools create default" in services["model"]["command"][0]


def test_redis_takes_nobody_without_a_name(services: dict[str, Any]):
    assert "--aclfile" in services["redis"]["command"]


def test_no_service_writes_what_another_reads(services: dict[str, Any]):
    """But for who brings models. A worker that was taken over would change the template of everybody's
    prompts, and find in a folder of all what a command left there."""
    own = {
        name: service for name, service in services.items() if service.get("image", "").startswith("parley:")
    }
    mounts = {
        name: [each for each in service.get("volumes", []) if not each.endswith(":ro")]
        for name, service in own.items()
    }
    assert {name: each for name, each in mounts.items() if each} == {
        **{name: [f"{name}_ends:/var/lib/parley/ends"] for name in ("gateway", "supervisor", "worker")},
        "access": ["./access:/access"],
        "model": ["models:/var/lib/parley/models"],
        "parley": ["models:/var/lib/parley/models"],
    }


def test_no_flood_of_log_lines_fills_the_disk(services: dict[str, Any]):
    """Docker keeps all of them unless it is told not to."""
    assert {
        name for name, service in services.items() if "max-size" not in service["logging"]["options"]
    } == set()
