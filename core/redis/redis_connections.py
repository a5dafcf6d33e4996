"""Connections to Redis by redis-py: to a server or a cluster, with or without TLS."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster
from redis.exceptions import ConnectionError, RedisClusterException, ResponseError

from core.configuration.settings import Settings
from core.errors import StartupError
from core.redis.client import Argument, RedisClient
from core.redis.shared_connection import MultiplexedConnection

CLUSTER_SCHEMES = {"redis+cluster://": "redis://", "rediss+cluster://": "rediss://"}
TLS_SCHEMES = ("rediss://", "rediss+cluster://")
CONNECTIONS_MAX = 64
CONNECTION_SECONDS_MAX = 10.0


def tls_options(settings: Settings) -> dict[str, str]:
    """Options of redis-py for certificates. The server's certificate and its name are always checked. Raises
    StartupError for a file that cannot be read, or where the URL asks for no TLS."""
    files = {
        "ssl_ca_certs": ("PARLEY_REDIS_CA_FILE", settings.redis_ca_file),
        "ssl_certfile": ("PARLEY_REDIS_CERT_FILE", settings.redis_cert_file),
        "ssl_keyfile": ("PARLEY_REDIS_KEY_FILE", settings.redis_key_file),
    }
    options: dict[str, str] = {}
    for option, (variable, path) in files.items():
        if path is None:
            continue
        if not settings.redis_endpoint.startswith(TLS_SCHEMES):
            raise StartupError(
                f"{variable} is set, but PARLEY_REDIS_URL asks for no TLS: begin it with "
                "rediss:// (or rediss+cluster://), or take the variable away"
            )
        try:
            path.open("rb").close()
        except OSError as error:
            raise StartupError(f"cannot read {variable} {path}: {error.strerror}") from error
        options[option] = str(path)
    return options


def connect_url(url: str, tls: Mapping[str, str] | None = None) -> RedisClient:
    """A client for redis://, rediss:// or unix:// URLs; redis+cluster://host:port opens a cluster, and
    rediss+cluster:// one whose nodes all speak TLS."""
    try:
        for scheme, of_a_node in CLUSTER_SCHEMES.items():
            if url.startswith(scheme):
                node = of_a_node + url.removeprefix(scheme)
                return cast(Any, Cluster).from_url(node, decode_responses=False, **(tls or {}))
        # Without waiting for one of its connections, a burst of callers would fail at once.
        pool = cast(Any, BlockingConnectionPool).from_url(
            url,
            max_connections=CONNECTIONS_MAX,
            timeout=CONNECTION_SECONDS_MAX,
            decode_responses=False,
            **(tls or {}),
        )
        return cast(RedisClient, MultiplexedRedis.from_pool(pool))
    except ValueError:  # its words may quote a password
        raise StartupError(
            "PARLEY_REDIS_URL is not a Redis URL: it is like redis://user:password@host:6379/0, also "
            "with rediss://, redis+cluster://, rediss+cluster:// or unix://; "
            "what else is in a password is written like %40"
        ) from None


class ScriptsMissing(ConnectionError):  # noqa: N818
    """Nothing was executed, and it may be later, as where Redis is away."""


class Cluster(RedisCluster):
    """A cluster client that fails as a server's does when unreachable: redis-py's error for it is no
    RedisError."""

    is_cluster = True

    async def initialize(self, *arguments: Any, **facts: Any) -> "Cluster":
        """As redis-py's, but an unreachable cluster raises ConnectionError."""
        try:
            await super().initialize(*arguments, **facts)
        except RedisClusterException as error:
            raise ConnectionError(str(error)) from error
        return self

    async def at_once(self, *command: Argument) -> Any:
        """See RedisClient: over a connection of the node's pool, like any other command."""
        call: Any = self  # redis-py types replies as unions of its blocking and its awaited forms
        return await call.execute_command(*command)

    async def all_at_once(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """One after the other, as their keys may lie on different nodes."""
        return [await self._reply_or_error(command) for command in commands]

    async def _reply_or_error(self, command: Sequence[Argument]) -> Any:
        try:
            return await self.at_once(*command)
        except ResponseError as error:
            return error


class MultiplexedRedis(Redis):
    """Beside the pool one connection that all its scripts share. Every other command goes over the pool."""

    is_cluster = False

    def __init__(self, *arguments: Any, **facts: Any) -> None:
        cast(Any, super()).__init__(*arguments, **facts)
        self.multiplexed = MultiplexedConnection(self.connection_pool)

    async def at_once(self, *command: Argument) -> Any:
        """Over the shared connection."""
        return await self.multiplexed.call(*command)

    async def all_at_once(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """Written together, over the shared connection."""
        return await self.multiplexed.calls(commands)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Close, as redis-py's, and run no script again."""
        try:
            await self.multiplexed.aclose()
        finally:
            await super().aclose(close_connection_pool)
