"""Pools as operations answer of them."""

from typing import Any

from billing.operations.pool_facts import PoolFacts, PoolStateName


def pool(name: str = "a", **facts: Any) -> PoolFacts:
    """A pool that there is."""
    given: dict[str, Any] = {"model": "m", "version": "v1", "workers": 2, "labels": {}, "tenant": None}
    given |= {"project": None, "let_in": [], "state": PoolStateName.ACTIVE, "generation": 1, "made": None}
    given |= {"reserve_interactive_tokens": 0, "reserve_standard_tokens": 0, "accept_gap": False}
    given |= {"next_version": None, "earlier_version": None, "old_until": None}
    return PoolFacts(pool=name, **(given | facts))
