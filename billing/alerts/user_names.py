"""Replaces user ids, which alerts are stored with, by names for people and webhooks."""

from collections.abc import Mapping
from typing import Any

from billing.tenants.users import user_names
from core.sql.database import Database


async def with_names(db: Database, tenant_id: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """A message with names, as it is sent and shown."""
    if payload.get("scope") != "user" or not payload.get("scope_id"):
        return dict(payload)
    id = payload["scope_id"]
    return {**payload, "scope_id": (await user_names(db, tenant_id, [id]))[id]}
