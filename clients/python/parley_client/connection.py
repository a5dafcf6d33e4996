"""One WebSocket of a client: frames in, frames out, and why it closed. It knows nothing of requests."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self
from urllib.parse import urljoin, urlsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidProxy,
    InvalidStatus,
    InvalidURI,
)
from websockets.typing import Subprotocol

from parley_client.answer import Frame, ProtocolError
from parley_client.causes import first_words, is_loopback

Encoding = Literal["json", "msgpack"]
SUPERSEDED = 4003
RATE_LIMITED = 4013
ABNORMAL = 1006
RETRYABLE = frozenset({1001, 1005, ABNORMAL, 1011, 1012, 1013})
STOPPED_AS = {
    SUPERSEDED: "superseded",
    4500: "bad_message",
    4501: "unauthorized",
    4502: "hello_timeout",
    4504: "forbidden",
    4505: "connection_limit",
    4506: "version",
    4507: "account_suspended",
    4509: "too_large",
}
REFUSED_AS = {401: "unauthorized", 403: "forbidden"}
RETRYABLE_STATUS = frozenset({408, 429})  # and every status from 500 on
FRAME_BYTES_MAX = 1024 * 1024
CLOSE_SECONDS_MAX = 1.0
WRITE_SECONDS_MAX = 10.0
RATE_LIMITED_SECONDS = 1.0  # the least wait after a close with that code, where no error named another
RETRY_AFTER_SECONDS_MAX = 60.0

ENCODE: dict[Encoding, Callable[[Frame], str | bytes]] = {
    "json": lambda frame: msgspec.json.encode(frame).decode(),
    "msgpack": msgspec.msgpack.encode,
}
DECODE: dict[Encoding, Callable[[str | bytes], dict[str, Any]]] = {
    "json": lambda data: msgspec.json.decode(data),
    "msgpack": lambda data: msgspec.msgpack.decode(data if isinstance(data, bytes) else data.encode()),
}


class Stopped(Exception):  # noqa: N818  (a decision of the server)
    """Raised where the server told the client not to come back."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class GatewayClosed(Exception):  # noqa: N818  (it happens)
    """Raised where a connection is gone, or was not opened. `wait_seconds`: the server's wish. `cause`: our
    code for why, where the server named none."""

    def __init__(
        self,
        code: int,
        reason: str = "",
        fault: Frame | None = None,
        wait_seconds: float = 0,
        cause: str = "lost",
    ) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        self._fault, self._cause = fault, cause
        self.reason = reason or (fault["message"] if fault else "")
        after_ms: int | None = fault.get("after_ms") if fault else None
        asked = after_ms / 1000 if after_ms is not None else RATE_LIMITED_SECONDS * (code == RATE_LIMITED)
        self.wait_seconds = wait_seconds or asked

    @property
    def retryable(self) -> bool:
        """True where a client may connect again. The code's range is the policy."""
        return self.code in RETRYABLE or (4000 <= self.code < 4500 and self.code != SUPERSEDED)

    @property
    def why(self) -> ProtocolError:
        """The reason why there is no connection, for people."""
        code = self._fault["code"] if self._fault else self._cause
        return ProtocolError(
            {"code": code, "message": self.reason or f"the connection was lost ({self.code})", "retry": True}
        )

    def stopped(self) -> Stopped:
        """The same as a final stop."""
        reason = self.reason or f"the server closed the connection ({self.code})"
        return Stopped(STOPPED_AS.get(self.code, "closed"), reason)


@dataclass(frozen=True)
class ConnectionState:
    """Where a client stands: "open"; "waiting", it connects again after `in_seconds`; or "stopped", for good.
    `why`: the reason of the last two."""

    state: Literal["open", "waiting", "stopped"]
    why: ProtocolError | None = None
    in_seconds: float | None = None


class GatewaySocket:
    """An open socket."""

    def __init__(self, socket: ClientConnection, encoding: Encoding) -> None:
        self._socket = socket
        self._encode, self._decode = ENCODE[encoding], DECODE[encoding]
        self._fault: Frame | None = None

    @classmethod
    async def open(cls, url: str, encoding: Encoding) -> Self:
        """Connect. Raises GatewayClosed where that may work later, Stopped where it will not."""
        try:
            socket = await connect(
                url,
                subprotocols=[Subprotocol(f"parley.v1.{encoding}")],
                compression=None,
                ping_interval=None,
                max_size=FRAME_BYTES_MAX,
                close_timeout=CLOSE_SECONDS_MAX,
                proxy=None if is_loopback(url) else True,
            )
        except InvalidStatus as refused:
            raise _refusal(refused) from refused
        except (InvalidURI, InvalidProxy, ImportError) as error:  # a SOCKS proxy needs a package
            raise Stopped("bad_request", str(error)) from error
        except (OSError, TimeoutError, InvalidHandshake, EOFError) as error:
            problem = f"no WebSocket could be opened to {url}: {error or type(error).__name__}"
            raise GatewayClosed(ABNORMAL, problem, cause="unreachable") from error
        return cls(socket, encoding)

    async def tell(self, frame: Frame) -> None:
        """Send one frame. A closed socket ignores it: `hear` raises that it is closed."""
        try:
            async with asyncio.timeout(WRITE_SECONDS_MAX):
                await self._socket.send(self._encode(frame))
        except ConnectionClosed:
            return
        except TimeoutError:
            self._socket.transport.abort()  # the peer takes nothing; `hear` raises that it is lost

    async def hear(self, seconds_max: float) -> Frame:
        """The next frame. Raises GatewayClosed, also where the peer is silent for too long."""
        try:
            async with asyncio.timeout(seconds_max):
                frame = self._message(await self._socket.recv())
        except ConnectionClosed as closed:
            received = closed.rcvd
            code, reason = (received.code, received.reason) if received else (ABNORMAL, "")
            raise GatewayClosed(code, reason, self._fault) from None
        except TimeoutError:
            self._socket.transport.abort()  # a close handshake with a dead peer takes its whole timeout
            raise GatewayClosed(ABNORMAL, f"nothing came for {seconds_max:.0f} s") from None
        if frame.get("t") == "error" and "id" not in frame:
            self._fault = frame  # the reason of the close that follows
        return frame

    def _message(self, data: str | bytes) -> Frame:
        try:
            frame = self._decode(data)
            if isinstance(frame.get("t"), str):
                return frame
        except (msgspec.DecodeError, UnicodeError, AttributeError):
            pass
        self._socket.transport.abort()
        problem = "what answers there does not speak parley.v1: is the address right?"
        raise GatewayClosed(ABNORMAL, problem, cause="bad_reply")

    async def close(self) -> None:
        """Close, and wait for the peer to agree, at most CLOSE_SECONDS_MAX."""
        await self._socket.close()


def _refusal(refused: InvalidStatus) -> Stopped | GatewayClosed:
    """The exception for an HTTP reply to the upgrade: 4xx will be the same next time, but for 408 and 429."""
    status, said = refused.response.status_code, first_words(refused.response.body or b"")
    problem = f"the server refused the WebSocket with HTTP {status}" + (f": {said}" if said else "")
    if status in RETRYABLE_STATUS or status >= 500:
        after = refused.response.headers.get("Retry-After", "")
        wait_seconds = min(float(after), RETRY_AFTER_SECONDS_MAX) if after.isdecimal() else 0
        return GatewayClosed(ABNORMAL, problem, None, wait_seconds, "unreachable")
    return Stopped(REFUSED_AS.get(status, "bad_request"), problem)


def same_origin(ours: str, named: object) -> str:
    """The address that a `go_away` names where it has the same scheme, host and port as ours, else ours."""
    if not isinstance(named, str):
        return ours
    try:
        theirs = urljoin(ours, named.replace("http", "ws", 1) if named.startswith("http") else named)
        return theirs if _origin(theirs) == _origin(ours) else ours
    except ValueError:
        return ours  # not an address


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"ws": 80, "wss": 443}.get(parts.scheme, 0)
