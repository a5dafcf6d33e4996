"""Names of a tenant's hash slot keys in Redis. All carry the hash tag `{t:TENANT}`, which puts them in one
slot."""


def tag(tenant: str) -> str:
    """Prefix of every key of the slot."""
    return f"{{t:{tenant}}}"


def posted_key(tenant: str) -> str:
    """The hash of a tenant's settled sums: cost_nano, input, output, requests."""
    return f"{{t:{tenant}}}posted"


def rq_key(tenant: str, id: str) -> str:
    """The directory record of a request."""
    return f"{{t:{tenant}}}rq:{id}"


def mark_key(tenant: str, id: str) -> str:
    """The mark of cancellers that cancelled a request before it came."""
    return f"{{t:{tenant}}}cancel:{id}"


def open_key(tenant: str) -> str:
    """The open requests of a tenant, by deadline."""
    return f"{{t:{tenant}}}conc"


def open_requests_key(tenant: str) -> str:
    """The open requests of a tenant, by admission."""
    return f"{{t:{tenant}}}live"
