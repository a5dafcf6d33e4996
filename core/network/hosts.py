"""Names that this platform is called by. A browser that was told that another name's address is ours (DNS
rebinding) sends that name in `Host`, and is turned away.

Addresses are never turned away, only names: rebinding needs one. Loopback's names, the bind's and those of
PARLEY_PUBLIC_ORIGINS are always ours. PARLEY_ALLOWED_HOSTS lists more; without it names are checked only
where the bind is loopback, which only this machine's browsers and proxies reach.
"""

import re
from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from core.errors import StartupError
from core.network.comma_list import split_list

LOOPBACK = "localhost"
ALL = "*"
PORT = re.compile(r":\d{1,5}", re.ASCII)
HOST = re.compile(
    r"(\*\.)?[A-Za-z0-9._-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?|[0-9A-Fa-f:.]+|\*", re.ASCII
)
ORIGIN = re.compile(r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?/?", re.ASCII)


class Hosts:
    """`names`: separated by commas, `*.example.org` for all below one, `*` for every name. `bind`:
    where the process listens. `origins`: PARLEY_PUBLIC_ORIGINS."""

    def __init__(self, names: str, bind: str, origins: str) -> None:
        called = [host_of(each) for each in split_list(names)]
        self._any = ALL in called or (not called and not is_loopback(bind))
        own = [urlsplit(origin).hostname or "" for origin in split_list(origins)]
        self._names = {LOOPBACK, bind.lower(), *own, *called} - {""}
        self._ends = tuple(name[1:] for name in called if name.startswith("*."))

    def allow(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """True where each `Host` of a request is a name of ours. A request without one comes from no browser
        and passes."""
        said = [value.decode("latin-1") for name, value in headers if name == b"host"]
        return self._any or all(self._ours(host_of(host)) for host in said)

    def _ours(self, name: str) -> bool:
        return (
            name in self._names
            or name.endswith(f".{LOOPBACK}")
            or (bool(self._ends) and name.endswith(self._ends))
            or _is_address(name)
        )


def require_hosts(names: str, origins: str) -> None:
    """Raises StartupError where PARLEY_ALLOWED_HOSTS or PARLEY_PUBLIC_ORIGINS has a wrong entry."""
    for variable, text, form, example in (
        ("PARLEY_ALLOWED_HOSTS", names, HOST, "chat.example.org,*.example.net"),
        ("PARLEY_PUBLIC_ORIGINS", origins, ORIGIN, "https://chat.example.org,http://localhost:3000"),
    ):
        wrong = next((each for each in split_list(text) if not form.fullmatch(each)), None)
        if wrong is not None:
            raise StartupError(f"{variable}: {wrong[:100]!r} is none; list them as in {example}")


def require_urls(**urls: str) -> None:
    """Raises StartupError where one of these, by its variable, is neither empty nor scheme, host and port."""
    for variable, url in urls.items():
        if url and not ORIGIN.fullmatch(url):
            raise StartupError(f"{variable}: {url[:100]!r} is none; write it as https://chat.example.org")


def host_of(host: str) -> str:
    """A Host without its port."""
    if host.startswith("["):
        address, _, port = host[1:].partition("]")
        return address.lower() if port == "" or PORT.fullmatch(port) else host
    name = host.partition(":")[0] if host.count(":") == 1 else host
    return name.removesuffix(".").lower()


def is_loopback(bind: str) -> bool:
    """True for a bind that only this machine can reach."""
    return bind == LOOPBACK or (_is_address(bind) and ip_address(bind).is_loopback)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
