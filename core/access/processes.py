"""Redis keys, channels and commands, SQL tables and secrets that each kind of process uses.

Decides nothing itself. `parley redis acl` and `parley db roles` make users and roles of it, and tests run
under them, so what is missing here fails a test. Keys are kinds: `P:` stands for a pool's tag, `T:` for any
tenant's. A kind that ends in `:` is followed by a name.
"""

from dataclasses import dataclass

# Commands of scripts on one node, by their effect on a key; a script has its caller's rights.
SCRIPT_COMMANDS = (
    "append del exists expire get getrange hdel hexists hget hgetall hincrby hkeys hlen hmget hset "
    "hsetnx hvals info lpos lpush ltrim mget persist pexpire pexpireat rename rpush sadd scard set "
    "sismember smembers smismember spublish srem time xadd xlen xrange xrevrange zadd zcard zcount "
    "zrange zrangebyscore zrem zremrangebyscore zscore evalsha"
)
# Commands with which a client begins a connection, on a cluster too.
CONNECT_COMMANDS = (
    "hello auth ping select quit reset client|setinfo client|setname client|id readonly asking cluster|slots "
    "cluster|shards cluster|nodes cluster|info command"
)
LOAD_COMMANDS = "eval script|load script|exists"
STREAM_COMMANDS = (
    "xgroup|create xgroup|delconsumer xreadgroup xack xautoclaim xpending xinfo|groups xinfo|stream "
    "xinfo|consumers xtrim"
)
LISTEN_COMMANDS = "subscribe unsubscribe ssubscribe sunsubscribe"
TRANSACTION_COMMANDS = "multi exec watch unwatch discard"

# A pool's kinds (engine/queue/redis_keys.py, engine/queue/lua).
REQUESTS = ("P:req:", "P:in:", "P:tok:", "P:log:", "P:rd:")
LINES = ("P:act:", "P:blocked:", "P:ids:", "P:big:", "P:age:", "P:deadlines", "P:parked", "P:unread")
WORKERS = (
    "P:workers",
    "P:worker:",
    "P:claims:",
    "P:bigs:",
    "P:fresh:",
    "P:suspects:",
    "P:run:",
    "P:ten:",
    "P:wake",
    "P:sys",
)
READERS = ("P:gws", "P:reads:")
SUPERVISED = ("P:supervisors", "P:supervisor:", "P:orders:")
NODES = (*SUPERVISED, "P:sweeper")
SIZES = ("P:sizes:",)  # how many workers a supervisor is to run: the fleet writes it
ADMITS = ("P:admits",)  # whom a pool lets in: its supervisor writes it, and no gateway
READY = ("P:ready", "P:ready_open")
REST = (
    *("P:reserves", "P:moving", "P:grave:", "P:ended", "P:replayed", "P:engine_hours", "P:ended_hours"),
    "P:dropped",
)
# The biller's position, which keepers of journals read.
ACKNOWLEDGED_COMMANDS = "xinfo|groups xpending"
POLICIES = ("P:policy:",)  # a worker reads them, and only processes that admit requests write them
TRIALS = ("P:trials:", "P:trial:", "P:verdict:")
POOL = (*REQUESTS, *LINES, *WORKERS, *READERS, *NODES, *READY, *REST, *TRIALS)
# A tenant's kinds (billing/quotas, server).
COUNTS = ("T:rate:", "T:rate~:", "T:conc:", "T:conc~:", "T:money:", "T:money~:")
# A script that is given a key has to be allowed to write it, also where it only reads.
SETTLING = ("T:rq:", "T:conc", "T:live", "T:posted", "T:windows", "T:dropped", *COUNTS)
QUOTAS = (*SETTLING, "T:moneys", "T:cancel:", "T:shadowed")
SESSIONS = ("T:sess:", "T:ticket:", "T:conns:")
CONNECTIONS = ("T:asked:", "T:closes")  # what gateways tell of their connections
# An installation's keys: `I:` stands for its name.
POOLS = "I:pools"
REFUSED = "I:refused"
CHANGES = "I:changes"
FIGURES = "I:figures:"
OPEN_TENANTS = "parley:tenants:open"
SIGN_IN_CODES = "parley:code:"
PERSON_CODES, SIGN_IN_TRIES = "parley:person:", "parley:tries:"
CONTROL = "parley:control"
# Not a setting: OTEL_EXPORTER_OTLP_HEADERS and its like, which OpenTelemetry reads by itself.
OTEL_HEADERS = "otel_headers"
HEADS = ("audit_heads_key", "audit_s3_secret")
GATEWAY_HINTS, WORKER_WAKES = "P:gw:", "P:wk:"


@dataclass(frozen=True)
class ProcessKind:
    """One kind of process. `commands`: words, any number in one text. `pools`: it is bound to those it is
    made for, else it serves all. `secrets`: the settings, of those that are secret, that it needs."""

    name: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    listens: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    pools: bool = False
    secrets: tuple[str, ...] = ()


GATEWAY = ProcessKind(
    "gateway",
    reads=(*READY, *ADMITS),
    writes=(
        *(*POOL, *POLICIES, *QUOTAS, *SESSIONS, *CONNECTIONS),
        *(POOLS, REFUSED, FIGURES, OPEN_TENANTS, SIGN_IN_CODES),
    ),
    listens=(CONTROL, GATEWAY_HINTS, WORKER_WAKES),
    commands=(
        SCRIPT_COMMANDS,
        LOAD_COMMANDS,
        STREAM_COMMANDS,
        LISTEN_COMMANDS,
        "publish blpop zrank",
    ),
    secrets=("secret", "secret_old", "redis_url", "database_url", "otlp_endpoint", OTEL_HEADERS),
)
WORKER = ProcessKind(
    "worker",
    reads=("P:reserves", "P:ready", *POLICIES, *ADMITS),
    writes=(
        *REQUESTS,
        *LINES,
        *WORKERS,
        *READERS,
        *("P:orders:", "P:ended", "P:replayed", "P:engine_hours", "P:ended_hours", "P:moving", "P:grave:"),
        "P:dropped",
        *TRIALS,
        *SETTLING,
        FIGURES,
    ),
    listens=(GATEWAY_HINTS, WORKER_WAKES),
    commands=(SCRIPT_COMMANDS, ACKNOWLEDGED_COMMANDS, LISTEN_COMMANDS, "blpop"),
    pools=True,
    secrets=("redis_url", "otlp_endpoint"),
)
SUPERVISOR = ProcessKind(
    "supervisor",
    writes=(*POOL, *ADMITS, *SIZES, *SETTLING, POOLS, OPEN_TENANTS, FIGURES),
    listens=(GATEWAY_HINTS, WORKER_WAKES),
    commands=(SCRIPT_COMMANDS, ACKNOWLEDGED_COMMANDS, LOAD_COMMANDS, "blpop"),
    pools=True,
    secrets=("redis_url", "worker_redis_url", "database_url", "otlp_endpoint", OTEL_HEADERS),
)
FLEET = ProcessKind(
    "fleet",
    reads=("P:supervisors", "P:supervisor:", "P:deadlines", "P:req:"),  # the last: requests by version
    writes=("P:sys", *SIZES),
    listens=(CONTROL,),  # a user that may publish there may listen too
    commands=(SCRIPT_COMMANDS, "publish"),
    secrets=("redis_url", "worker_redis_url", "database_url", "otlp_endpoint", OTEL_HEADERS),
)
BILLER = ProcessKind(
    "biller",
    reads=("P:req:", POOLS, "P:workers"),
    writes=(
        *("P:ended", *READY, "P:engine_hours", "P:ended_hours", "P:dropped"),
        *(*QUOTAS, REFUSED, "I:noisy", "I:reconciling"),
    ),
    listens=(CONTROL,),
    commands=(SCRIPT_COMMANDS, STREAM_COMMANDS, TRANSACTION_COMMANDS, "publish hscan"),
    secrets=(
        "admission_key",
        "redis_url",
        "database_url",
        "smtp_password",
        *HEADS,
        "otlp_endpoint",
        OTEL_HEADERS,
    ),
)
# What operations of a kind of console change in Redis (tests/security/test_console_rights.py holds it).
CANCELLED = (
    *(*REQUESTS, *LINES, *READERS, *SETTLING, POOLS),
    *("P:moving", "P:claims:", "P:bigs:", "P:ten:", "P:wake", "P:sys", "P:ended"),
)
MONEY_COUNTED = ("T:money:", "T:money~:", "T:moneys")
SIGNED_IN = (PERSON_CODES, SIGN_IN_TRIES, CHANGES)
CONSOLE_COMMANDS = "publish zrank sscan pttl"
CONSOLE_SECRETS = (
    *("secret", "secret_old", "redis_url", "database_url", "otlp_endpoint", OTEL_HEADERS),
    "smtp_password",  # invitations
)
CONSOLE = ProcessKind(
    "console-operators",
    reads=(*POOL, *QUOTAS, *CONNECTIONS, FIGURES),
    writes=(*SIGNED_IN, *CANCELLED, *ADMITS, *WORKERS, *POLICIES, *SUPERVISED, "P:grave:", "T:moneys"),
    listens=(CONTROL, GATEWAY_HINTS, WORKER_WAKES),
    commands=(SCRIPT_COMMANDS, STREAM_COMMANDS, CONSOLE_COMMANDS),
    secrets=CONSOLE_SECRETS,
)
PORTAL = ProcessKind(
    "console-tenants",
    reads=("P:workers", "P:worker:", "P:run:", *SUPERVISED, "T:shadowed", *CONNECTIONS),
    writes=(*SIGNED_IN, *CANCELLED, *MONEY_COUNTED),
    listens=(CONTROL, GATEWAY_HINTS, WORKER_WAKES),
    commands=(SCRIPT_COMMANDS, CONSOLE_COMMANDS),
    secrets=CONSOLE_SECRETS,
)
OPERATOR = ProcessKind(
    "operator",
    reads=(FIGURES, *CONNECTIONS),
    writes=(
        *POOL,
        *ADMITS,
        *POLICIES,
        *QUOTAS,
        *SESSIONS,
        *(POOLS, OPEN_TENANTS, "I:noisy", "I:reconciling", CHANGES),
    ),
    listens=(CONTROL, GATEWAY_HINTS, WORKER_WAKES),
    commands=(
        SCRIPT_COMMANDS,
        LOAD_COMMANDS,
        STREAM_COMMANDS,
        LISTEN_COMMANDS,
        TRANSACTION_COMMANDS,
        "publish blpop zrank sscan scan xgroup|setid",
    ),
    secrets=(
        *("secret", "secret_old", "redis_url", "database_url", *HEADS, "otlp_endpoint", OTEL_HEADERS),
        "smtp_password",
    ),
)
MIGRATE = ProcessKind("migrate", secrets=("database_url",))

PROCESSES = (GATEWAY, WORKER, SUPERVISOR, FLEET, BILLER, CONSOLE, PORTAL, OPERATOR, MIGRATE)
