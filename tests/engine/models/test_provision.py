"""Models come into the data folder complete or not at all."""

import asyncio
import json
import os
import shutil
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from safetensors import safe_open

from core.configuration.settings import Settings
from core.errors import StartupError
from core.sql.database import Database, migrate
from engine.cli.models import command as models_command
from engine.models.fingerprint import digests, rule_of
from engine.models.provision import MANIFEST, prepare, provision, read_manifest, register
from engine.models.registry import resolve
from tests.support.models import small_model

# Of this version for ever: other weights are another version (CONVERSION), or answers go on with what they
# were not begun with.
WEIGHTS = "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b"


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """A model folder as a user might have one."""
    return small_model(tmp_path / "My Model")


def told(_line: str) -> None:
    """Progress that nobody reads."""


def test_smollm2_is_dequantized_with_a_true_manifest(model_folder: Path):
    """bfloat16 safetensors, the tokenizer and the chat template, and the digests of exactly these files."""
    manifest = read_manifest(model_folder)
    assert (manifest["name"], manifest["max_model_len"]) == ("smollm2", 8192)
    assert manifest["sha256"] == digests(model_folder, rule_of(manifest))
    assert {"model.safetensors", "tokenizer.json", "chat_template.jinja"} <= manifest["sha256"].keys()
    assert (manifest["version"], manifest["sha256"]["model.safetensors"]) == ("0.1.2-bf16.2", WEIGHTS)
    with safe_open(model_folder / "model.safetensors", "pt") as weights:
        names = list(weights.keys())
        assert weights.get_slice(names[0]).get_dtype() == "BF16"


def test_a_local_folder_is_linked_not_copied(local: Path, home: Path):
    """Its template gets a file of its own; a second call finds the same folder; a changed file a new one."""
    first = provision(str(local), home, told)
    assert first == provision(str(local), home, told)
    assert first.parent == home / "models" / "my-model"
    assert (first / "model.safetensors").is_symlink()
    assert (first / "chat_template.jinja").read_text() == "{{ messages }}"
    (local / "model.safetensors").write_bytes(b"other weights")
    assert provision(str(local), home, told) != first


@pytest.mark.parametrize(
    ("removed", "named"),
    [
        ("config.json", "no config.json"),
        ("tokenizer.json", "no tokenizer.json"),
        ("model.safetensors", r"no \*\.safetensors"),
        ("tokenizer_config.json", "no chat_template"),
    ],
)
def test_what_is_missing_is_named(local: Path, home: Path, removed: str, named: str):
    """One line that says which file the folder lacks, and nothing is left in the data folder."""
    (local / removed).unlink()
    with pytest.raises(StartupError, match=named):
        provision(str(local), home, told)
    assert not list(home.glob("models/*/*/manifest.json"))


@pytest.mark.parametrize("name", ["no-such-model", "/no/such/folder", "./nowhere", "owner/name@main"])
def test_an_unknown_model_is_one_clear_line(home: Path, name: str):
    """Neither a name, nor a folder, nor a hub id."""
    with pytest.raises(StartupError, match="there is no model"):
        provision(name, home, told)


COMMIT, NEWER = "ab" * 20, "cd" * 20


@pytest.fixture
def hub(local: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked of a hub whose newest commit is NEWER, instead of the process that downloads."""
    asked: list[str] = []

    async def downloaded(arguments: list[str], work: Path, _progress: object) -> str:
        _, id, folder, commit = arguments
        asked.append(f"{id}@{commit}")
        shutil.copytree(local, folder, dirs_exist_ok=True)
        return commit or NEWER

    monkeypatch.setattr("engine.models.provision._run", downloaded)
    return asked


def test_a_commit_that_was_named_is_never_another_one(home: Path, hub: list[str]):
    """It is fetched once, also by `models add`, which looks for newer commits of other ids."""
    first = provision(f"owner/Name@{COMMIT}", home, told)
    assert read_manifest(first)["version"] == COMMIT[:12]
    assert asyncio.run(prepare(f"owner/Name@{COMMIT}", home, told, refresh=True)) == first
    newest = provision("owner/Name", home, told)
    assert newest == first  # which there is already
    newest = asyncio.run(prepare("owner/Name", home, told, refresh=True))
    assert read_manifest(newest)["version"] == NEWER[:12]
    assert provision(f"owner/Name@{COMMIT}", home, told) == first
    assert hub == [f"owner/Name@{COMMIT}", "owner/Name@"]


def test_the_commit_of_a_model_is_told(home: Path, hub: list[str]):
    """So that it can be pinned."""
    lines: list[str] = []
    provision("owner/Name", home, lines.append)
    assert hub == ["owner/Name@"]
    assert f"this is owner/Name@{NEWER}: name it so to get the same again" in lines


def test_a_hub_that_answers_another_commit_is_not_believed(
    home: Path, hub: list[str], monkeypatch: pytest.MonkeyPatch
):
    """Nothing of it is left."""

    async def other(*_: object) -> str:
        return NEWER

    monkeypatch.setattr("engine.models.provision._run", other)
    with pytest.raises(StartupError, match="was asked for"):
        provision(f"owner/Name@{COMMIT}", home, told)
    assert not list(home.glob("models/*/*/manifest.json"))
    assert hub == []


def test_a_missing_shard_is_named(local: Path, home: Path):
    """An index that promises more files than there are."""
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002.safetensors"}}
    (local / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(StartupError, match=r"no model-00002\.safetensors"):
        provision(str(local), home, told)


def test_two_at_once_make_one(local: Path, home: Path):
    """The second waits for the first and finds its folder; a killed one's remains are removed."""
    left_over = home / "models" / "my-model" / ".making-dead"
    left_over.mkdir(parents=True)
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(provision(str(local), home, told))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(found) == 4
    assert not left_over.exists()


def test_a_folder_that_is_being_made_is_no_model(local: Path, home: Path):
    """However complete it looks: whoever makes it gives it another name next."""
    made = provision(str(local), home, told)
    making = shutil.copytree(made, made.parent / ".making-now")
    later = made.stat().st_mtime + 10
    os.utime(making / MANIFEST, (later, later))
    assert provision(str(local), home, told) == made


def test_a_model_is_added_listed_and_made_newer(home: Path, hub: list[str]):
    """By the command: what is ready and where; of an id whose commit is not named, what is newer."""

    def types(*arguments: str) -> str:
        result = CliRunner().invoke(models_command, arguments, env={"PARLEY_HOME": str(home)})
        assert result.exit_code == 0, (result.output, result.exception)
        return result.stdout

    asyncio.run(migrate(Settings(home=home).database_endpoint))
    assert types("list") == "No model yet: parley models add smollm2\n"
    first, unused = types("add", f"owner/Name@{COMMIT}", "--no-answer").splitlines()[-2:]
    assert unused == f"no pool uses it yet: parley models use name {COMMIT[:12]}"
    assert "no pool serves name, so its requests are refused: parley pools create POOL" in types("list")
    assert first.startswith(f"name {COMMIT[:12]} is ready in {home / 'models'}")
    (listed,) = map(json.loads, types("list", "--json").splitlines())
    assert (listed["name"], listed["version"], listed["max_model_len"]) == ("name", COMMIT[:12], 128)
    assert Path(listed["folder"]).is_dir()
    types("add", "owner/Name", "--no-answer")
    assert hub == [f"owner/Name@{COMMIT}", "owner/Name@"]
    _, newer = map(json.loads, types("list", "--json").splitlines())
    assert newer["version"] == NEWER[:12]
    assert types("verify", "name", newer["version"]).endswith("is as it was prepared\n")
    (Path(newer["folder"]) / "config.json").write_text("{}")
    verified = CliRunner().invoke(
        models_command, ["verify", "name", newer["version"]], env={"PARLEY_HOME": str(home)}
    )
    assert "config.json changed since it was prepared" in str(verified.exception)
    refused = CliRunner().invoke(models_command, ["add", str(home / "none")], env={"PARLEY_HOME": str(home)})
    assert isinstance(refused.exception, StartupError)


async def test_a_folder_may_be_a_version_of_a_model_by_another_name(local: Path, home: Path):
    """Named so each time; what is no name of a model is refused before anything is made."""
    made = await prepare(str(local), home, told, name="small")
    assert (made.parent, read_manifest(made)["name"]) == (home / "models" / "small", "small")
    assert await prepare(str(local), home, told, name="small") == made
    assert (await prepare(str(local), home, told)).parent.name == "my-model"
    with pytest.raises(StartupError, match=r"'\.\./x' is no name of a model"):
        await prepare(str(local), home, told, name="../x")


async def test_a_full_disk_is_one_clear_line(home: Path, monkeypatch: pytest.MonkeyPatch):
    """Said before the conversion starts."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 0))
    with pytest.raises(StartupError, match="not enough disk space"):
        await prepare("smollm2", home, told)


async def test_a_registered_model_can_be_named(
    local: Path, home: Path, database: Database, settings: Settings
):
    """The record carries the shorter of the model's and the operator's length."""
    folder = await prepare(str(local), home, told)
    short = settings.model_copy(update={"worker_max_model_len": 64})
    await register(database, folder, short)
    record = await resolve(database, "my-model")
    assert record is not None
    assert (record.folder, record.max_model_len) == (folder, 64)
