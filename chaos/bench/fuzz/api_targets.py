"""Both sides of the API in this process, and who calls there: the owner, and admins of tenants that they
make.

Everything comes about over the API itself, by the raw bytes that a socket would bring.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from admin.api.callers import OPERATORS_SIDE, SIDES, TENANTS_SIDE
from admin.console import Console
from billing.api import PLATFORM, ensure_owner, make_person_code
from chaos.bench.fuzz.line import Served, status
from chaos.bench.fuzz.targets import ADDRESS_LIMITS, CALLERS_LIMITS
from core.clock import now_ms
from core.configuration.settings import Settings
from core.redis.client import RedisClient
from core.sql.database import Database
from core.web.http import UpgradeGate, configured
from server.http.app import SecurityHeaders

ORIGIN = "http://127.0.0.1:8080"
OWNER = "Ann"
ANSWER_SECONDS = 20.0  # a hang: nothing that is only slow, on a busy machine, takes so long


@dataclass(frozen=True)
class ApiReply:
    """What came back; status 0: nothing. `headers`: of several of one name the first."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def facts(self) -> Any:
        """The answer of a call that has to succeed."""
        assert self.status == 200, f"{self.status}: {self.body[:500]!r}"
        return json.loads(self.body)


@dataclass
class ApiVisitor:
    """A browser at one side, at an address of its own on this machine, where staff are asked for no second
    factor. `headers`: those of its session."""

    served: Served
    address: str
    headers: dict[str, str] = field(default_factory=dict[str, str])

    async def ask(
        self, method: str, target: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> ApiReply:
        """Call a route."""
        every = {"host": "127.0.0.1:8080", "origin": ORIGIN, "connection": "close", **self.headers}
        every |= {**(headers or {}), **({"content-length": str(len(body))} if body else {})}
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in every.items())]
        raw = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
        line = await self.served.ask([raw], self.address, whole=True)
        head, _, content = bytes(line.written).partition(b"\r\n\r\n")
        pairs = (each.split(": ", 1) for each in head.decode("latin-1").split("\r\n")[:0:-1])
        return ApiReply(status(line), {name.lower(): value for name, value in pairs}, content)

    async def post(self, path: str, **facts: object) -> Any:
        """The answer of a write that has to succeed."""
        return (await self.ask("POST", path, json.dumps({"reason": "fuzz", **facts}).encode())).facts

    async def sign_in(self, **how: str) -> None:
        """From now on call as whoever this is."""
        self.headers.clear()
        reply = await self.ask("POST", "/api/sign-in", json.dumps(how).encode())
        csrf = reply.facts["csrf"]
        self.headers |= {"cookie": reply.headers["set-cookie"].partition(";")[0], "x-parley-csrf": csrf}


class ApiTarget:
    """An installation's two sides."""

    def __init__(self, settings: Settings, db: Database, redis: RedisClient) -> None:
        self._settings = settings.model_copy(update=dict.fromkeys([*CALLERS_LIMITS, *ADDRESS_LIMITS], 10**9))
        self._db = db
        self._served = {name: self._serve(name, redis) for name in SIDES}
        self._tenants = self._visitors = 0

    async def document(self, side: str) -> dict[str, Any]:
        """What a side says that it takes and answers."""
        return (await self._at(side).ask("GET", "/openapi.json")).facts

    async def visitor(self, side: str) -> tuple[ApiVisitor, dict[str, str]]:
        """Somebody who may do most at a side, with a fresh tenant, and the ids of things there by the names
        that fields give them."""
        owner = self._at(OPERATORS_SIDE.name)
        member = await ensure_owner(self._db, OWNER)
        assert member is not None, "others own the installation"
        code = make_person_code(self._settings.keyring, member.person.id, PLATFORM, now_ms())
        await owner.sign_in(by="link", code=code)
        known, invitation = await self._planted(owner)
        admin = self._at(TENANTS_SIDE.name)
        await admin.sign_in(by="invitation", code=invitation, name=f"Mia {self._tenants}")
        people = (await owner.ask("GET", f"/api/people?tenant={known['tenant']}")).facts["items"]
        known["person"] = people[0]["person"]
        return (owner if side == OPERATORS_SIDE.name else admin), known

    def _at(self, side: str) -> ApiVisitor:
        self._visitors += 1
        return ApiVisitor(self._served[side], f"127.1.{self._visitors >> 8 & 255}.{self._visitors & 255}")

    async def _planted(self, owner: ApiVisitor) -> tuple[dict[str, str], str]:
        self._tenants += 1
        tenant = (await owner.post("/api/tenants", name=f"t{self._tenants}"))["tenant"]
        of = f"/api/tenants/{tenant}"
        known = {
            "tenant": tenant,
            "pool": self._settings.pool,
            "project": (await owner.post(f"{of}/projects", name="lab"))["project"],
            "user": (await owner.post(f"{of}/users", user="bob"))["user"],
            "plan": (await owner.post("/api/plans", name=f"plan{self._tenants}"))["name"],
            "key": (await owner.post(f"{of}/keys", project="lab"))["key"]["key"],
            "limit_id": (
                await owner.post(f"{of}/limits", scope="tenant", dimension="requests_per_minute", limit=9)
            )["limit_id"],
            "budget": (await owner.post(f"{of}/budgets", limit={"nano": "1000"}))["budget"],
            "grant": (await owner.post(f"{of}/wallet/grants", amount={"nano": "1000"}, key="g1"))["grant"],
        }
        email = f"mia{self._tenants}@example.test"
        link = (await owner.post("/api/invitations", email=email, role="admin", tenant=tenant))["link"]
        return known, link.rpartition("=")[2]

    def _serve(self, side: str, redis: RedisClient) -> Served:
        made = Console(self._settings, redis, self._db, SIDES[side])
        app = SecurityHeaders(made.app(), self._settings.tls)
        return Served(configured(app, UpgradeGate(self._settings), ws="none"), ANSWER_SECONDS)
