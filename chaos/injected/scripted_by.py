"""The scripted engine of a worker's process, as its PARLEY_TEST_ variables describe it."""

import os
import secrets
from itertools import islice

from tokenizers import Tokenizer

from chaos.injected.scripted import ScriptedEngine, poisoned, seeded, telling_secrets
from chaos.injected.secrets import MARK, SECRETS

STEP_MS = "PARLEY_TEST_STEP_MS"
SEED = "PARLEY_TEST_SEED"
UNSOUND = "PARLEY_TEST_UNSOUND"
POISON = "PARLEY_TEST_POISON"
TELLS_SECRETS = "PARLEY_TEST_SECRETS"
CACHED_PERCENT = "PARLEY_TEST_CACHED_PERCENT"
VOCABULARY = 256


def engine_of(tokenizer: Tokenizer) -> ScriptedEngine:
    """For load and chaos: ids of plain text, chosen by a seed, at a set pace."""
    plain = (id for id in range(tokenizer.get_vocab_size()) if is_plain(tokenizer.decode([id])))
    vocabulary = list(islice(plain, VOCABULARY))
    if os.environ.get(UNSOUND):
        return ScriptedEngine(lambda _: secrets.choice(vocabulary), 0.001)
    seed, step_ms = int(os.environ.get(SEED, "1")), float(os.environ.get(STEP_MS, "10"))
    script = seeded(seed, vocabulary)
    if poison := os.environ.get(POISON):
        script = poisoned(script, tokenizer.encode(poison, add_special_tokens=False).ids)
    if os.environ.get(TELLS_SECRETS):
        told = [tokenizer.encode(each, add_special_tokens=False).ids for each in SECRETS]
        [mark] = tokenizer.encode(MARK, add_special_tokens=False).ids
        script = telling_secrets(script, mark, told)
    cached = int(os.environ.get(CACHED_PERCENT, "0"))
    return ScriptedEngine(script, step_ms / 1000, cached_percent=cached)


def is_plain(text: str) -> bool:
    """Whether a terminal shows it as it is."""
    return bool(text) and text.isascii() and text.isprintable()
