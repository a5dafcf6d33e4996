"""Certificates of our own authority, and a door that speaks TLS before a server that does not."""

import asyncio
import ipaddress
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

ADDRESS = ipaddress.ip_address("127.0.0.1")


@dataclass(frozen=True)
class CertificatePair:
    """A certificate and its key, PEM files."""

    certificate: Path
    key: Path


class Authority:
    """Signs what a test needs. `certificate`: what clients trust."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._own = self._signed(name, self._key.public_key(), name, authority=True)
        self.certificate = folder / f"{name}.pem"
        self.certificate.write_bytes(self._own.public_bytes(serialization.Encoding.PEM))

    def pair(self, name: str, *, for_loopback: bool = True) -> CertificatePair:
        """A server's or a client's. `for_loopback`: good for 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(name, key.public_key(), self._name, for_loopback=for_loopback)
        pair = CertificatePair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        plain = serialization.NoEncryption()
        form = serialization.PrivateFormat.PKCS8
        pair.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
        return pair

    def server(self, pair: CertificatePair, *, asks: bool = False) -> ssl.SSLContext:
        """What a server listens with. `asks`: it takes only clients that show a certificate of ours."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        if asks:
            context.load_verify_locations(self.certificate)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _signed(
        self,
        name: str,
        key: ec.EllipticCurvePublicKey,
        issuer: str,
        *,
        authority: bool = False,
        for_loopback: bool = False,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        names: list[x509.GeneralName] = [x509.DNSName(f"{name}.example")]
        if for_loopback:
            names.append(x509.IPAddress(ADDRESS))
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(_usage(authority), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key),
                critical=False,
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        return builder.sign(self._key, hashes.SHA256())


def _usage(authority: bool) -> x509.KeyUsage:
    """Without it Python 3.13 on trusts no authority."""
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


@contextmanager
def tls_before(doors: list[tuple[int, int]], context: ssl.SSLContext) -> Generator[None]:
    """Doors on loopback, (TLS port, port behind it) each, in a thread of their own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> list[asyncio.Server]:
        return [await _door(port, behind, context) for port, behind in doors]

    async def stop() -> None:
        for server in servers:
            server.close()
        pumps = asyncio.all_tasks() - {asyncio.current_task()}
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        await asyncio.sleep(0.05)  # what was aborted is closed

    servers = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _door(port: int, behind: int, context: ssl.SSLContext) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", behind)
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))

    return await asyncio.start_server(serve, "127.0.0.1", port, ssl=context)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
    finally:
        writer.transport.abort()
