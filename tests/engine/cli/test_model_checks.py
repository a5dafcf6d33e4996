"""What a version has to pass when it is added: said as it passes, stored, and not added where one fails."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from core.configuration.settings import Settings
from core.errors import StartupError
from core.sql.database import Database
from engine.cli import model_checks
from engine.cli.model_checks import checked
from engine.models.provision import prepare, record_in, register
from engine.models.registry import ModelRecord, save_checks
from engine.models.tables import ModelVersion
from engine.node.model_memory import MachineMemory
from engine.operations.model_facts import proved
from tests.support.models import small_model

NOTHING: Mapping[str, str] = {}


async def prepared(settings: Settings, tmp_path: Path, files: Mapping[str, str] = NOTHING) -> ModelRecord:
    """A small model with these files in place of its own."""
    local = small_model(tmp_path / "tiny")
    for name, text in files.items():
        (local / name).write_text(text)
    return record_in(await prepare(str(local), settings.home, lambda _: None), settings)


def answering(monkeypatch: pytest.MonkeyPatch, seen: str | StartupError) -> list[list[str]]:
    """What was asked of child processes, of which that of an engine is not started."""
    asked, real = list[list[str]](), model_checks._last_line

    async def last_line(
        arguments: list[str], settings: Settings, most: float, more: Mapping[str, str]
    ) -> str:
        asked.append(arguments)
        if arguments[0] != "engine.worker.answer_check":
            return await real(arguments, settings, most, more)
        assert '"dtype": "auto"' in more["PARLEY_MODEL_RECORD"]
        if isinstance(seen, StartupError):
            raise seen
        return seen

    monkeypatch.setattr(model_checks, "_last_line", last_line)
    monkeypatch.setattr(model_checks, "find_spec", lambda _: object())
    return asked


async def test_each_check_is_said_and_stored(
    settings: Settings, tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
):
    """With its seconds and where it was; by an answer the version is proved."""
    answering(monkeypatch, "8 tokens, twice the same")
    record, lines = await prepared(settings, tmp_path), list[str]()
    passed = await checked(record, settings, lines.append, answers=True)
    assert [each["name"] for each in passed] == ["tokenizer", "template", "answer"]
    assert lines[0].startswith("tokenizer: 2 tokens, 1 of them end an answer (")
    assert lines[1].startswith("template: a small conversation has ")
    loads, answered = lines[2:]
    assert loads == f"answer: an engine loads it, at most {settings.worker_start_seconds_max} s"
    assert answered == "answer: 8 tokens, twice the same (0.0 s)"
    await register(database, record.folder, settings)
    await save_checks(database, record.name, record.version, passed)
    async with database.session() as session:
        row = await session.get_one(ModelVersion, (record.name, record.version))
    assert row.checks == passed
    assert proved(row, []).startswith(f"by an answer on {settings.node} at 20")
    await register(database, record.folder, settings)  # as each start of `parley up` does
    async with database.session() as session:
        assert (await session.get_one(ModelVersion, (record.name, record.version))).checks == passed


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"tokenizer.json": "{}"}, "tokenizer: cannot read the tokenizer"),
        ({"config.json": '{"max_position_embeddings": 8}'}, "tokenizer: .* names an end-of-sequence token"),
        ({"chat_template.jinja": "{{ raise_exception('no') }}"}, "template: .* refuses these messages: no"),
        ({"chat_template.jinja": "{% for"}, "template: "),
        ({"chat_template.jinja": "{{ ''.__class__.__mro__ }}"}, "template: .*unsafe"),
    ],
)
async def test_what_fails_is_not_added(
    settings: Settings, tmp_path: Path, files: Mapping[str, str], told: str
):
    """It says which check, of which version, and why. A template can do nothing but make text."""
    record = await prepared(settings, tmp_path, files)
    with pytest.raises(StartupError, match=f"tiny {record.version} is not added: {told}"):
        await checked(record, settings, lambda _: None, answers=False)


async def test_an_engine_that_is_not_sound_is_told(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """By the last line of its process."""
    answering(monkeypatch, StartupError("self-test failed: the engine's probabilities are not numbers"))
    record = await prepared(settings, tmp_path)
    with pytest.raises(StartupError, match="is not added: answer: self-test failed"):
        await checked(record, settings, lambda _: None, answers=True)


async def test_where_nothing_can_answer_the_first_worker_proves_it(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Without an engine, without room, or when told so: with the reason."""
    asked = answering(monkeypatch, "never asked")
    record, lines = await prepared(settings, tmp_path), list[str]()
    await checked(record, settings, lines.append, answers=False)
    monkeypatch.setattr(model_checks, "machine_memory", lambda: MachineMemory(9_000, 10, gpu=True))
    await checked(record, settings, lines.append, answers=True)
    monkeypatch.setattr(model_checks, "find_spec", lambda _: None)
    passed = await checked(record, settings, lines.append, answers=True)
    assert [each["name"] for each in passed] == ["tokenizer", "template"]
    told = [line for line in lines if line.startswith("answer: not tried (")]
    reasons = ("--no-answer", "a worker needs about", "this machine has no engine")
    for line, why in zip(told, reasons, strict=True):
        assert why in line
        assert line.endswith("the first worker proves it, before a pool switches to it")
    assert {each[0] for each in asked} == {"server.models.template_check"}
