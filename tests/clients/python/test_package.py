"""What a customer installs: typed, of few packages, and nothing of the platform's."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

import parley_client

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "clients" / "python"


def test_what_is_promised_is_there():
    """Each name of the interface; a type checker is told that the package has types."""
    assert all(hasattr(parley_client, name) for name in parley_client.__all__)
    assert (Path(parley_client.__file__).parent / "py.typed").is_file()


def test_the_platform_is_built_with_this_very_client():
    """Its wheel asks for that version; no lock names it, for no index is asked for it."""
    client = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    platform = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [Requirement(each) for each in platform["dependencies"]]
    assert [str(each) for each in asked if each.name == client["name"]] == [
        f"{client['name']}=={client['version']}"
    ]
    needed = {Requirement(each).name for each in client["dependencies"]}
    assert needed == {"msgspec", "websockets"}
    assert needed <= {each.name for each in asked}
