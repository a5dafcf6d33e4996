"""The scripted engine that a worker's variables describe."""

import pytest

from chaos.injected import scripted_by
from chaos.injected.scripted import ScriptedEngine
from chaos.injected.scripted_by import engine_of, is_plain
from tests.engine.tokens import byte_tokenizer, ids_of


def scripted() -> ScriptedEngine:
    """As a process makes it."""
    return engine_of(byte_tokenizer())


def test_the_engine_of_load_and_chaos_says_plain_text(monkeypatch: pytest.MonkeyPatch):
    """The same by the same seed, at its pace; an unsound one never the same."""
    for name, value in (
        (scripted_by.STEP_MS, "20"),
        (scripted_by.SEED, "3"),
        (scripted_by.CACHED_PERCENT, "40"),
    ):
        monkeypatch.setenv(name, value)
    engine, same = scripted(), scripted()
    contexts = [ids_of("hello")[:length] for length in range(1, 6)]
    said = [engine.next_token(context) for context in contexts]
    assert said == [same.next_token(context) for context in contexts]
    assert all(32 <= id < 127 for id in said)
    assert (engine.step_seconds, engine.cached_percent) == (0.02, 40)
    monkeypatch.setenv(scripted_by.SEED, "4")
    other = scripted()
    assert [other.next_token(context) for context in contexts] != said
    monkeypatch.setenv(scripted_by.UNSOUND, "1")
    unsound = scripted()
    many = [[unsound.next_token([1]) for _ in range(30)] for _ in range(2)]
    assert many[0] != many[1]
    assert is_plain("a b")
    assert not any(map(is_plain, ("", "é", "\x07")))
