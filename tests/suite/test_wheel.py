"""What the platform's wheel holds: the product, and no switch of chaos or tests."""

import hashlib
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from core.runtime import hooks
from core.runtime.environment import child_environment, unknown_settings

ROOT = Path(__file__).parents[2]
ROOMS = {"core", "billing", "engine", "server", "admin"}
APACHE = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"  # of the text at apache.org
SWITCHES = (b"PARLEY_TEST_", b"PARLEY_FAILPOINTS")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Each file of it, as one installs it."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def test_the_wheel_holds_the_product_alone(wheel: dict[str, bytes]) -> None:
    """Neither chaos nor tests, and nothing that Python would run as it begins."""
    rooms = {name.partition("/")[0] for name in wheel}
    assert {room for room in rooms if not room.endswith(".dist-info")} == ROOMS
    assert not [name for name in wheel if name.endswith((".pth", "sitecustomize.py"))]
    assert not [name for name in wheel if b"import chaos" in wheel[name] or b"from chaos" in wheel[name]]


@pytest.mark.parametrize(
    ("folder", "page", "beside"),
    [
        ("server/web", "index.html", {"client"}),
        ("admin/web", "console.html", {"tables"}),
        ("admin/web", "portal.html", {"tables"}),
    ],
)
def test_the_wheel_carries_the_pages_as_they_were_built(
    wheel: dict[str, bytes], folder: str, page: str, beside: set[str]
) -> None:
    """With the licences of what is in them; neither their sources nor what builds them."""
    held = {name.removeprefix(f"{folder}/") for name in wheel if name.startswith(f"{folder}/")}
    assert {f"dist/{page}", f"dist/{page}.br", "dist/licences.md"} <= held
    assert {name.partition("/")[0] for name in held} == {"dist", *beside}
    asked = re.findall(r'(?:src|href)="/web/([^"]+)"', wheel[f"{folder}/dist/{page}"].decode())
    assert asked
    assert {f"dist/{name}" for name in asked} <= held
    assert not [name for name in wheel if "node_modules" in name]


def test_the_wheel_carries_the_licence(wheel: dict[str, bytes]) -> None:
    """Apache 2.0, with its text; both clients, which go out by themselves, have the same."""
    (metadata,) = (held for name, held in wheel.items() if name.endswith(".dist-info/METADATA"))
    (licence,) = (held for name, held in wheel.items() if name.endswith(".dist-info/licenses/LICENSE"))
    assert b"\nLicense-Expression: Apache-2.0\nLicense-File: LICENSE\n" in metadata
    assert hashlib.sha256(licence).hexdigest() == APACHE
    python, js = (ROOT / "clients" / name for name in ("python", "js"))
    assert licence == (python / "LICENSE").read_bytes() == (js / "LICENSE").read_bytes()
    assert tomllib.loads((python / "pyproject.toml").read_text())["project"]["license"] == "Apache-2.0"
    assert json.loads((js / "package.json").read_text())["license"] == "Apache-2.0"


def test_no_file_of_the_wheel_knows_a_switch_of_tests(wheel: dict[str, bytes]) -> None:
    """Nobody can turn a scripted engine or a death on in an installed platform."""
    assert not [name for name, held in wheel.items() if any(switch in held for switch in SWITCHES)]


def test_without_chaos_a_switch_is_a_misspelt_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its operator is told that it is ignored, and no child gets it."""
    monkeypatch.setattr(hooks, "injected", ())
    given = {"PARLEY_TEST_BACKEND": "scripted", "PARLEY_FAILPOINTS": "biller.after_read", "PATH": "/bin"}
    assert unknown_settings(given) == ["PARLEY_FAILPOINTS", "PARLEY_TEST_BACKEND"]
    assert child_environment(given) == {"PATH": "/bin"}
