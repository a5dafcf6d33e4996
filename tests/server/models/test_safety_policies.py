"""What a gateway knows of projects' policies: what holds, for how long, within which memory."""

from typing import Any

import pytest

from core.errors import Refused
from engine.api import DEFAULT_POLICY, PolicyDocument, PolicyError
from engine.safety.documents import DEFAULT, PolicyDetector, PolicyPattern, policy_hash, stored
from server.models import safety_policies
from server.models.safety_policies import SafetyPolicies
from tests.support.watch import StubClock

BROKEN = PolicyDocument()
TIGHTER = PolicyDocument(detectors=(PolicyDetector("card", "block", prompt="redact"),))


class StoredDocuments:
    """Instead of SQL; `news`: to whom they come while it is read."""

    def __init__(self) -> None:
        self.documents = dict[str, PolicyDocument]()
        self.asked = list[str]()
        self.news: SafetyPolicies | None = None

    async def applies(self, tenant: str, project: str) -> PolicyDocument:
        """As the store's."""
        self.asked.append(f"{tenant} {project}")
        found = self.documents.get(tenant, DEFAULT)
        if self.news is not None:
            self.news.changed()
        if found is BROKEN:
            raise PolicyError("damaged")
        return found


@pytest.fixture
def documents() -> StoredDocuments:
    """None is set."""
    return StoredDocuments()


@pytest.fixture
def policies(documents: StoredDocuments, watch: StubClock) -> SafetyPolicies:
    """A gateway's."""
    nothing: Any = None
    found = SafetyPolicies(nothing)
    found._store = documents  # type: ignore[assignment]  # pyright: ignore
    return found


async def test_the_default_stands_in_no_pool(policies: SafetyPolicies, documents: StoredDocuments):
    """And looks for nothing in prompts; a tenant's own document goes along with what is under it."""
    default = await policies.of("t", "p")
    assert (default.hash, default.in_pool, default.has_prompt_rules) == (DEFAULT_POLICY, None, False)
    documents.documents["other"] = TIGHTER
    own = await policies.of("other", "p")
    assert own.hash == policy_hash(TIGHTER)
    assert own.in_pool is not None
    assert (own.in_pool.hash, own.in_pool.document) == (own.hash, stored(TIGHTER))
    assert own.has_prompt_rules


async def test_it_is_known_for_five_seconds(
    policies: SafetyPolicies, documents: StoredDocuments, watch: StubClock
):
    """Each project's apart; not a millisecond longer."""
    await policies.of("t", "p")
    asked = 1
    for passed_ms, more in ((0, 0), (4_999, 0), (1, 1), (-1, 1)):
        watch.ms += passed_ms
        await policies.of("t", "p")
        asked += more
        assert len(documents.asked) == asked, passed_ms
    await policies.of("t", "q")
    assert documents.asked[-1] == "t q"


async def test_news_are_heard_at_once(policies: SafetyPolicies, documents: StoredDocuments):
    """Also where they come while it is being read: what was read is not kept."""
    await policies.of("t", "p")
    documents.documents["t"] = TIGHTER
    assert (await policies.of("t", "p")).hash == DEFAULT_POLICY
    policies.changed()
    documents.news = policies
    assert (await policies.of("t", "p")).hash == policy_hash(TIGHTER)
    del documents.documents["t"]
    assert (await policies.of("t", "p")).hash == DEFAULT_POLICY


async def test_a_damaged_document_lets_no_send_through(policies: SafetyPolicies, documents: StoredDocuments):
    """Not under the default, and not under none."""
    documents.documents["t"] = BROKEN
    with pytest.raises(Refused) as refused:
        await policies.of("t", "p")
    assert refused.value.refusal.code == "internal"
    assert "damaged" not in refused.value.refusal.message


async def test_documents_are_kept_within_memory(
    policies: SafetyPolicies, documents: StoredDocuments, monkeypatch: pytest.MonkeyPatch
):
    """Those read last; one alone may be larger."""
    words = tuple(PolicyPattern(f"p{at}", "EMP-[0-9]{6}", "redact") for at in range(50))
    size = len(stored(PolicyDocument(patterns=words))) + safety_policies.PROJECT_BYTES
    monkeypatch.setattr(safety_policies, "KEPT_BYTES_MAX", 2 * size)
    documents.documents = {tenant: PolicyDocument(patterns=words) for tenant in "abc"}
    for tenant in "abc":
        await policies.of(tenant, "p")
    documents.asked.clear()
    for tenant in "cba":
        await policies.of(tenant, "p")
    assert documents.asked == ["a p"]
    monkeypatch.setattr(safety_policies, "KEPT_BYTES_MAX", 1)
    await policies.of("b", "q")
    documents.asked.clear()
    await policies.of("b", "q")
    assert documents.asked == []
