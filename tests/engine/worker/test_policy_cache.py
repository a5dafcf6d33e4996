"""Compiled policies of one worker: the last used are kept, within a bound in bytes."""

import gc
from pathlib import Path

import pytest

from engine.safety.documents import (
    DEFAULT,
    DEFAULT_POLICY,
    PolicyDocument,
    PolicyPattern,
    policy_hash,
)
from engine.safety.filter import Filter
from engine.safety.policy import CompiledPolicy, UnknownPolicyError, compiled
from engine.safety.rules import Rule
from engine.worker.policy_cache import BYTES_MAX, PolicyCache
from tests.support.tiers import by_form

SMALL = CompiledPolicy([])
LARGE = CompiledPolicy([Rule("", "words", "flag", "tenant", words=tuple(map(str, range(10_000))))])
TENANTS = by_form(20, 200)
TEXT = "Ask ann@example.org about 4111 1111 1111 1111 and the rest of it. " * 20


def known(cache: PolicyCache, *hashes: str) -> list[str]:
    """Those of them that are there."""
    found: list[str] = []
    for hash in hashes:
        try:
            cache.compiled(hash)
            found.append(hash)
        except UnknownPolicyError:
            pass
    return found


def test_a_built_in_policy_is_always_there():
    """Whatever else is."""
    cache = PolicyCache(1)
    cache.keep("a", SMALL)
    assert cache.compiled(DEFAULT_POLICY) is cache.compiled(DEFAULT_POLICY)


def test_the_last_used_are_kept():
    """To the byte; one that is larger than all room is kept alone."""
    cache = PolicyCache(3 * SMALL.size)
    for hash in "abc":
        cache.keep(hash, SMALL)
    assert known(cache, "a") == ["a"], "which is the last used then"
    cache.keep("d", SMALL)
    assert (known(cache, *"abcd"), cache.bytes) == (["a", "c", "d"], 3 * SMALL.size)
    cache.keep("e", LARGE)
    assert (known(cache, *"abcde"), cache.bytes) == (["e"], LARGE.size)


def test_a_policy_that_is_kept_again_counts_once():
    """It takes the place of the one before."""
    cache = PolicyCache(3 * SMALL.size)
    for _ in range(5):
        cache.keep("a", SMALL)
    assert cache.bytes == SMALL.size
    cache.drop("a")
    cache.drop("a")
    assert (known(cache, "a"), cache.bytes) == ([], 0)


def a_tenants(number: int) -> PolicyDocument:
    """The default, and ten patterns of its own."""
    own = (PolicyPattern(f"p{at}", f"T{number:03d}-{at}[0-9]{{4,10}}", "redact") for at in range(10))
    return PolicyDocument(DEFAULT.detectors, tuple(own))


def test_two_hundred_tenants_with_a_policy_each(capsys: pytest.CaptureFixture[str]):
    """All are kept, and take what is said of them, at most twice."""
    cache, before = PolicyCache(), _resident()
    for number in range(TENANTS):
        document = a_tenants(number)
        policy = compiled(document)
        Filter(policy).feed(TEXT, final=True)
        cache.keep(policy_hash(document), policy)
    taken = _resident() - before
    with capsys.disabled():
        each, said = taken / TENANTS / 2**20, cache.bytes / TENANTS / 2**20
        print(f"\n{TENANTS} policies take {each:.2f} MiB each, of which {said:.2f} are counted")
    assert len(known(cache, *(policy_hash(a_tenants(number)) for number in range(TENANTS)))) == TENANTS
    assert taken < 2 * cache.bytes
    assert cache.bytes < BYTES_MAX


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
