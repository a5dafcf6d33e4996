"""Places that keep heads (PARLEY_AUDIT_HEADS): appended files, S3-compatible stores, log servers."""

import asyncio
import os
import re
import secrets
import socket
import ssl
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from billing.audit_heads.s3 import S3Bucket, put
from core.configuration.settings import Settings
from core.errors import StartupError
from core.network.comma_list import split_list
from core.network.interruptible_socket import InterruptibleSocket
from core.observability.error_facts import kind, reason

SECONDS_MAX = 10.0
SYSLOG_SECONDS_MAX = 30.0  # of all its steps
CLOSE_SECONDS = 1.0
NAME = "PARLEY_AUDIT_HEADS"
FORMS = "file:///path, s3://bucket/prefix, syslog://host:port, syslog+tls://host or syslog+udp://host"
PORTS = {"syslog": 601, "syslog+tls": 6514, "syslog+udp": 514}
PRIORITY = 13 * 8 + 5  # log audit, notice
KEY_BYTES_MIN = 32
STORE = re.compile(r"(?i:https?)://[A-Za-z0-9._:\[\]-]+/*", re.ASCII)


class HeadNotStored(Exception):  # noqa: N818  (the message is what people are shown)
    """Reason that heads were not stored, in words that name no secret."""


class HeadStore(Protocol):
    """A place that keeps heads. `kind`: one of a few, for metrics; `shown`: for people."""

    kind: ClassVar[str]

    @property
    def shown(self) -> str:
        """Its name for people."""
        ...

    async def append(self, lines: Sequence[str]) -> None:
        """Add lines. Raises HeadNotStored."""
        ...


@dataclass(frozen=True)
class FileHeadStore:
    """A file of mode 0600, synced after each write."""

    kind: ClassVar[str] = "file"
    path: Path

    @property
    def shown(self) -> str:
        """Its path."""
        return str(self.path)

    async def append(self, lines: Sequence[str]) -> None:
        """Append in one write. Ends a torn earlier line first."""
        try:
            await asyncio.to_thread(self._write, "".join(f"{line}\n" for line in lines).encode())
        except OSError as error:
            raise HeadNotStored(reason(error)) from error

    def _write(self, data: bytes) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        file = os.open(self.path, flags, 0o600)
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise HeadNotStored("it is no file")
            if found.st_size and os.pread(file, 1, found.st_size - 1) != b"\n":
                data = b"\n" + data
            if os.write(file, data) != len(data):
                raise HeadNotStored("not all was written: the disk is full?")
            os.fsync(file)
        finally:
            os.close(file)
        if not found.st_size:
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


@dataclass(frozen=True)
class S3HeadStore:
    """A new object for each write, which nothing overwrites."""

    kind: ClassVar[str] = "s3"
    store: S3Bucket
    bucket: str
    prefix: str

    @property
    def shown(self) -> str:
        """Bucket and prefix."""
        return f"s3://{self.bucket}/{self.prefix}"

    async def append(self, lines: Sequence[str]) -> None:
        """Write one object, named by the time."""
        import httpx  # not needed to list the stores

        at = datetime.now(UTC).strftime("%Y/%m/%d/%H%M%S")
        name = "/".join(part for part in (self.prefix, f"{at}-{secrets.token_hex(4)}.jsonl") if part)
        body = "".join(f"{line}\n" for line in lines).encode()
        try:
            async with asyncio.timeout(SECONDS_MAX), httpx.AsyncClient(trust_env=False) as client:
                status = await put(client, self.store, self.bucket, name, body)
        except TimeoutError as error:
            raise HeadNotStored(f"no answer in {SECONDS_MAX:.0f} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise HeadNotStored(kind(error)) from error
        if not 200 <= status < 300:
            raise HeadNotStored(f"the store answered {status}")


@dataclass(frozen=True)
class SyslogHeadStore:
    """A log server that speaks RFC 5424: over TCP (RFC 6587, octets counted), TLS (RFC 5425) or UDP."""

    kind: ClassVar[str] = "syslog"
    scheme: str
    host: str
    port: int

    @property
    def shown(self) -> str:
        """Its text in the setting."""
        return f"{self.scheme}://{self.host}:{self.port}"

    async def append(self, lines: Sequence[str]) -> None:
        """Send a message for each line. The server answers nothing: success means only that it was sent."""
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = f"<{PRIORITY}>1 {stamp} {_host_name()} parley {os.getpid()} audit-head - "
        over = InterruptibleSocket()
        try:
            async with asyncio.timeout(SYSLOG_SECONDS_MAX):
                await asyncio.to_thread(self._send, [f"{before}{line}".encode() for line in lines], over)
        except TimeoutError as error:
            raise HeadNotStored(f"not sent in {SYSLOG_SECONDS_MAX:.0f} s") from error
        except OSError as error:
            raise HeadNotStored(kind(error)) from error
        finally:
            over.hang_up()

    def _send(self, messages: Sequence[bytes], over: InterruptibleSocket) -> None:
        if self.scheme == "syslog+udp":
            family, *_, address = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, socket.SOCK_DGRAM) as sender:
                for message in messages:
                    sender.sendto(message, address)
            return
        with socket.create_connection((self.host, self.port), timeout=SECONDS_MAX) as plain:
            over.opened(plain)
            data = b"".join(b"%d %s" % (len(message), message) for message in messages)
            if self.scheme == "syslog":
                plain.sendall(data)
                return
            with ssl.create_default_context().wrap_socket(plain, server_hostname=self.host) as stream:
                stream.sendall(data)
                stream.settimeout(CLOSE_SECONDS)
                with suppress(OSError):  # all is sent; the other side may skip the TLS goodbye
                    stream.unwrap()


def head_stores_of(settings: Settings) -> list[HeadStore]:
    """The places of PARLEY_AUDIT_HEADS. Raises StartupError where one is invalid."""
    return [_place(text, settings) for text in split_list(settings.audit_heads)]


def files_of(settings: Settings) -> list[Path]:
    """Those of them that are files, which can be read here."""
    return [place.path for place in head_stores_of(settings) if isinstance(place, FileHeadStore)]


def key_of(settings: Settings) -> bytes | None:
    """The key that signs heads, PARLEY_AUDIT_HEADS_KEY; None where it is not set. Raises StartupError where
    it is too short."""
    if settings.audit_heads_key is None:
        return None
    key = settings.audit_heads_key.get_secret_value().encode()
    if len(key) < KEY_BYTES_MIN:
        raise StartupError(f"PARLEY_AUDIT_HEADS_KEY has at least {KEY_BYTES_MIN} bytes")
    return key


def _place(text: str, settings: Settings) -> HeadStore:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise _refused() from None
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise StartupError(f"an address in {NAME} holds no user, password or question: it is {FORMS}")
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path.strip("/"):
        return FileHeadStore(Path(unquote(parts.path)))
    if parts.scheme == "s3" and parts.netloc:
        return _s3_place(parts, settings)
    if parts.scheme in PORTS and parts.hostname and port != 0 and parts.path in ("", "/"):
        return SyslogHeadStore(parts.scheme, parts.hostname, port or PORTS[parts.scheme])
    raise _refused()


def _s3_place(parts: SplitResult, settings: Settings) -> S3HeadStore:
    secret = settings.audit_s3_secret
    if not settings.audit_s3_key_id or secret is None:
        raise StartupError(f"s3:// in {NAME} needs PARLEY_AUDIT_S3_KEY_ID and PARLEY_AUDIT_S3_SECRET")
    url = settings.audit_s3_url or f"https://s3.{settings.audit_s3_region}.amazonaws.com"
    if not STORE.fullmatch(url) or not _is_address(url):
        raise StartupError("PARLEY_AUDIT_S3_URL is an address as https://s3.example.com, without a bucket")
    store = S3Bucket(
        url.rstrip("/"), settings.audit_s3_region, settings.audit_s3_key_id, secret.get_secret_value()
    )
    return S3HeadStore(store, parts.netloc, parts.path.strip("/"))


def _is_address(url: str) -> bool:
    try:
        return bool(urlsplit(url).hostname) and urlsplit(url).port != 0
    except ValueError:
        return False


def _refused() -> StartupError:
    return StartupError(f"{NAME} names places as {FORMS}, several with commas between")


def _host_name() -> str:
    """A field of RFC 5424: printable ASCII without blanks."""
    name = "".join(each for each in socket.gethostname() if "!" <= each <= "~")
    return name[:255] or "-"
