"""The example tenants: who they are, what they have, and how they use it. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class Rhythm(StrEnum):
    """When a key is used: in the office's hours, at night by a job, or around the clock."""

    OFFICE = "office"
    NIGHT = "night"
    ALWAYS = "always"


class KeyEnd(StrEnum):
    """What becomes of a key."""

    NONE = "none"
    REVOKED = "revoked"
    EXPIRES = "expires"


class BudgetUse(StrEnum):
    """How much of its budget a tenant has spent."""

    MOST = "most"
    ALL = "all"


@dataclass(frozen=True)
class ExampleKey:
    """A key of a project. `share`: of its tenant's requests, beside its other keys; `input`, `output`: tokens
    of a usual request; `tags`: labels of its requests."""

    name: str
    project: str
    share: float = 1.0
    rhythm: Rhythm = Rhythm.OFFICE
    priority: str = "interactive"
    input: int = 900
    output: int = 260
    reasons: bool = False
    end: KeyEnd = KeyEnd.NONE
    tags: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ExampleTenant:
    """A tenant. `share`: of all requests, beside other tenants; `plan`: the name of one of PLANS; `grants`:
    parts of what it uses that it pays for in advance, none: it is postpaid; `strict`: it blocks cards."""

    name: str
    share: float
    plan: str
    zone: str = "UTC"
    keys: tuple[ExampleKey, ...] = ()
    users: tuple[str, ...] = ()
    grants: tuple[float, ...] = ()
    budget: BudgetUse | None = None
    user_day_cents: int = 0
    limit_per_minute: int = 0
    strict: bool = False

    @property
    def projects(self) -> tuple[str, ...]:
        """Names of the projects of its keys, in their order."""
        return tuple(dict.fromkeys(key.project for key in self.keys))


@dataclass(frozen=True)
class ExamplePlan:
    """A plan: requests and tokens a minute, requests at once, and its weight in the pools."""

    name: str
    requests: int
    tokens: int
    at_once: int
    weight: float


PLANS = (
    ExamplePlan("starter", 60, 60_000, 4, 1.0),
    ExamplePlan("team", 600, 600_000, 32, 2.0),
    ExamplePlan("enterprise", 6_000, 6_000_000, 256, 8.0),
)

CHAT_WEB = ExampleKey("chat-web", "assistant", 5.0, tags=(("app", "web"), ("env", "production")))
BATCH_NIGHTLY = ExampleKey(
    "batch-nightly", "reports", 2.5, Rhythm.NIGHT, "bulk", 3_400, 520, tags=(("job", "nightly-summaries"),)
)
SEARCH = ExampleKey("search-answers", "search", 3.0, Rhythm.ALWAYS, input=2_600, output=180)
AGENT = ExampleKey("coding-agent", "engineering", 2.0, input=5_200, output=900, reasons=True)
OLD = ExampleKey("chat-web-old", "assistant", 0.4, end=KeyEnd.REVOKED)
TRIAL = ExampleKey("contractor-trial", "engineering", 0.3, end=KeyEnd.EXPIRES, tags=(("env", "trial"),))

PEOPLE = ("ann", "ben", "carla", "deniz", "emil", "fatou", "grete", "hiro", "ines", "jonas", "kim", "lena")

# The last one is new: it has no key, and nothing is used.
NEW = ExampleTenant("stark", 0.0, "starter")
TENANTS = (
    ExampleTenant(
        "acme",
        8.0,
        "enterprise",
        "Europe/Berlin",
        (CHAT_WEB, BATCH_NIGHTLY, SEARCH, AGENT, OLD, TRIAL),
        PEOPLE,
        budget=BudgetUse.MOST,
        user_day_cents=5,
        strict=True,
    ),
    ExampleTenant(
        "globex",
        4.0,
        "team",
        "America/New_York",
        (CHAT_WEB, SEARCH, OLD),
        PEOPLE[:8],
        grants=(0.5, 0.9),
        limit_per_minute=300,
    ),
    ExampleTenant("initech", 2.0, "team", "UTC", (CHAT_WEB, AGENT), PEOPLE[2:7], budget=BudgetUse.ALL),
    ExampleTenant("hooli", 3.0, "team", "America/Los_Angeles", (BATCH_NIGHTLY, SEARCH), PEOPLE[4:6]),
    ExampleTenant("umbra", 1.0, "starter", "UTC", (CHAT_WEB,), PEOPLE[5:9], grants=(0.85,)),
    ExampleTenant("tyrell", 1.5, "starter", "Asia/Tokyo", (AGENT, TRIAL), PEOPLE[1:5]),
    ExampleTenant(
        "wayne", 1.0, "team", "America/New_York", (CHAT_WEB, BATCH_NIGHTLY), PEOPLE[6:], strict=True
    ),
    ExampleTenant("cyberdyne", 1.0, "team", "UTC", (AGENT, BATCH_NIGHTLY), PEOPLE[3:8]),
    ExampleTenant("soylent", 0.6, "starter", "UTC", (CHAT_WEB,), PEOPLE[:3], grants=(1.4,)),
    ExampleTenant("aperture", 0.8, "team", "UTC", (SEARCH, CHAT_WEB), PEOPLE[7:]),
    ExampleTenant("wonka", 0.4, "starter", "Europe/Berlin", (CHAT_WEB,), PEOPLE[9:]),
)
COUNT_MAX = len(TENANTS) + 1


def example_tenants(count: int) -> tuple[ExampleTenant, ...]:
    """The first of them, and the new one; one tenant is no new one."""
    assert 1 <= count <= COUNT_MAX, "there are not so many"
    return TENANTS[:1] if count == 1 else (*TENANTS[: count - 1], NEW)
