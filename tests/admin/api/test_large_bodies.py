"""Bodies that are too large or too deep, at everything that a tenant's admin writes."""

import json
from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest

from admin.api.bodies import BODY_BYTES_MAX
from core.operations import Operation, Role, registered
from tests.admin.api.conftest import ApiSite, created

PIECE = b" " * (64 << 10)
PIECES = 96  # six mebibytes
WRITTEN = [
    each for each in registered().values() if each.method != "GET" and Role.ADMIN in each.may and not each.own
]


class CountedBody:
    """A large body, of which it is known how much was taken."""

    def __init__(self) -> None:
        self.taken = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(PIECES):
            self.taken += len(PIECE)
            yield PIECE


@pytest.fixture
async def admin(site: ApiSite) -> httpx.AsyncClient:
    """An admin of acme."""
    tenant = await created(await site.signed_in())
    return await site.signed_in(Role.ADMIN, tenant, "Mia")


def url_of(declared: Operation) -> str:
    """The path of a call, dry where it would write."""
    path = declared.path.format_map({name: "x" for name in declared.path_fields} | {"tenant": "acme"})
    return f"/api{path}{'?dry_run=true' if declared.writes else ''}"


async def test_six_mebibytes_are_not_taken_in(admin: httpx.AsyncClient) -> None:
    """Stated, they are refused before the first one is read; in pieces of no stated length, at the limit."""
    assert len(WRITTEN) > 30
    for declared in WRITTEN:
        for stated, most in ({"content-length": str(len(PIECE) * PIECES)}, len(PIECE)), ({}, BODY_BYTES_MAX):
            body = CountedBody()
            reply = await admin.request(
                declared.method, url_of(declared), content=aiter(body), headers=stated
            )
            assert reply.status_code == 413, (declared.name, reply.text[:200])
            assert body.taken <= most + len(PIECE), declared.name


async def test_what_is_nested_too_deep_is_refused(admin: httpx.AsyncClient) -> None:
    """Around the call, and within each of its fields, with every depth that a decoder takes or not."""
    for declared in WRITTEN:
        names = [each.encode_name for each in msgspec.structs.fields(declared.asks)]
        fields = [name for name in names if name not in declared.path_fields]
        for depth in (300, 900, 100_000):
            lists, dicts = "[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth
            for body in (lists, dicts, *(f"{{{json.dumps(name)}:{lists}}}" for name in fields)):
                reply = await admin.request(declared.method, url_of(declared), content=body.encode())
                assert reply.status_code == 400, (declared.name, depth, reply.text[:200])
