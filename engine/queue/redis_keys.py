"""The names of everything a pool keeps in Redis (docs/redis.md, "A pool's keys").

All carry the one hash tag `{p:POOL}`, so a pool lives on one node of a cluster. The scripts in
`engine/queue/lua` derive the same names from `system`; a name here is one that Python touches itself.
"""


def system(pool: str) -> str:
    """The pool's own record; scripts get this key and cut the prefix off it."""
    return f"{{p:{pool}}}sys"


def member(tenant: str, request: str) -> str:
    """Name of a request in a pool's sets and sorted sets."""
    return f"{tenant}:{request}"


def split_member(name: str) -> tuple[str, str]:
    """Tenant and request id of a member. Request ids hold no colon."""
    tenant, _, request = name.rpartition(":")
    return tenant, request


def record(pool: str, tenant: str, request: str) -> str:
    """The request's hash."""
    return f"{{p:{pool}}}req:{tenant}:{request}"


def request_input(pool: str, tenant: str, request: str) -> str:
    """The request's input, msgpack."""
    return f"{{p:{pool}}}in:{tenant}:{request}"


def tokens(pool: str, tenant: str, request: str) -> str:
    """Every sampled token id of the request, u32 little-endian."""
    return f"{{p:{pool}}}tok:{tenant}:{request}"


def log(pool: str, tenant: str, request: str) -> str:
    """The request's log, a stream with ids `o-0`."""
    return f"{{p:{pool}}}log:{tenant}:{request}"


def by_age(pool: str, priority: str) -> str:
    """The waiting requests of a class, oldest first."""
    return f"{{p:{pool}}}age:{priority}"


def workers(pool: str) -> str:
    """Worker -> end of its lease."""
    return f"{{p:{pool}}}workers"


def worker(pool: str, name: str) -> str:
    """One worker's hash."""
    return f"{{p:{pool}}}worker:{name}"


def claims(pool: str, name: str) -> str:
    """The requests a worker holds."""
    return f"{{p:{pool}}}claims:{name}"


def gateways(pool: str) -> str:
    """Gateway -> end of its lease."""
    return f"{{p:{pool}}}gws"


def deadlines(pool: str) -> str:
    """Key of the pool's requests that have not ended, by deadline."""
    return f"{{p:{pool}}}deadlines"


def wake(pool: str) -> str:
    """The list that idle workers wait on."""
    return f"{{p:{pool}}}wake"


def sweeper(pool: str) -> str:
    """Mark that exists while a reaper sweeps the pool."""
    return f"{{p:{pool}}}sweeper"


def gateway_channel(pool: str, gateway: str) -> str:
    """The sharded channel of a gateway's hints."""
    return f"{{p:{pool}}}gw:{gateway}"


def worker_channel(pool: str, name: str) -> str:
    """The sharded channel that wakes a worker for a control flag."""
    return f"{{p:{pool}}}wk:{name}"


def policy(pool: str, hash: str) -> str:
    """A safety policy's document, by its hash."""
    return f"{{p:{pool}}}policy:{hash}"


def trials(pool: str, fingerprint: str) -> str:
    """The list of shapes that gateways want tried for a model."""
    return f"{{p:{pool}}}trials:{fingerprint}"


def trial(pool: str, tenant: str, name: str) -> str:
    """A shape that a tenant wants tried. Of one that several tenants want each has a key, so none waits for
    another's turn."""
    return f"{{p:{pool}}}trial:{tenant}:{name}"


def verdict(pool: str, name: str) -> str:
    """The result of a trial."""
    return f"{{p:{pool}}}verdict:{name}"
