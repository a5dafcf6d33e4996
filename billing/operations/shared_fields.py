"""What the structs and declarations of several operations share. Light: each command imports it."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from core.access.tables import AUDIT as AUDIT

CONTROL = ("parley:control",)

TenantName = Annotated[str, Meta(description="The tenant's name or id.")]


class Priority(StrEnum):
    """Classes of requests, the highest first."""

    INTERACTIVE = "interactive"
    STANDARD = "standard"
    BULK = "bulk"


class NameTenant(msgspec.Struct, frozen=True, kw_only=True):
    """Which tenant."""

    tenant: TenantName
