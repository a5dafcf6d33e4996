"""Values that strangers may send: anything, and for what is known by its name, what almost is one. Pure.

Names of headers, query parameters, fields and cookies are those that the code reads (found in its source), so
that a new one is tried as well.
"""

import base64
import json
import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from core.ids import uuid7

ROOT = Path(__file__).parents[3]
FOLDERS = ("server", "admin", "core")
READ = {
    "header": re.compile(r'headers(?:\.get\(|\[)\s*"([A-Za-z0-9-]{1,40})"'),
    "query": re.compile(r'query_params(?:\.get\(|\[)\s*"([A-Za-z0-9_-]{1,40})"'),
    "field": re.compile(r'(?:body|fields)\)?(?:\.get\(|\[)\s*"([A-Za-z0-9_-]{1,40})"'),
    "cookie": re.compile(r'COOKIE\w* = "([A-Za-z0-9_-]{1,40})"'),
}
HEADERS = """host origin cookie authorization content-type content-encoding accept accept-encoding
    accept-language range if-range if-none-match if-modified-since x-forwarded-for x-forwarded-proto
    x-forwarded-host forwarded traceparent tracestate baggage te expect upgrade referer user-agent
    sec-websocket-key sec-websocket-version sec-websocket-protocol sec-websocket-extensions sec-fetch-site"""
# The usage API's parameters, which it reads as a whole, with what they may be or almost are.
ASKED = {
    "month": b"2026-10 2026-13 0001-01 9998-12".split(),
    "from": b"2026-10-01 2026-10-25T02:30 1970-01-01T00:00:00.001Z 0001-01-01".split(),
    "to": b"2026-10-25T02:30:00+02:00 9998-12-31 2027-01-01".split(),
    "by": b"project,user key,model cost_center,pool reason meter,kind user,user".split(),
    "bucket": b"hour day month week".split(),
    "limit": b"1 7 1000 1001".split(),
    "format": b"csv json".split(),
} | {
    name: [b"", b"acme", b"web", b"input"]
    for name in ("project", "cost_center", "user", "key", "model", "pool", "reason", "meter", "kind")
}
LENGTHS = (1, 2, 16, 100, 1000, 4000, 7000, 30_000)
INTEGERS = (0, 1, -1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**40, 10**300)
DIGITS = (*(str(integer).encode() for integer in INTEGERS), b"9" * 4400)
URLS = rb"""null http://[ http://[::1 http://[::1]:99999 http://a:b http://a:99999999 http://gateway.test@x //
    http://gateway.test:80 http://\ file:///x http://%zz [ ]:80 gateway.test:-1 a:b:c"""
WORDS = rb"""%00 % %zz ..%2f..%2fetc%2fpasswd ../../etc/passwd * 1e999 NaN 1.5 true [] {} '--OR--1=1
    (((((a+)+)+)+)+)+$ {{7*7}} ${jndi:ldap://x} Bearer bytes=0- bytes=-1 bytes=9-1 W/"x" websocket chunked
    gzip,gzip,gzip 100-continue close,upgrade parley.v1.json"""
NASTY: Sequence[bytes] = (
    *URLS.split(),
    *WORDS.split(),
    *(b"", b"\0", b"\xff\xfe", b"\t", b"\x1b[31m[/x]", b"Bearer ", b"Basic YTpi", b"a=b; a=b", b"\xa0\x85"),
    *("\u202e\u0000é\U0001f600".encode(), b"Thu, 99 Jan 0000 99:99:99 GMT"),
)
REPEATED: Sequence[bytes] = (
    *rb"""a 9 [ {"a": " \" ; , 0-0, %41 a=& / ( a;q=0, \u0041 """.split(),
    *(b" ", b"a=b; ", b"\xc3\xa9", b"\0"),
)


@cache
def read_names(kind: str) -> Sequence[str]:
    """The names that our code asks for: of headers, query parameters, fields or cookies."""
    sources = [path.read_text() for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    found = {name for source in sources for name in READ[kind].findall(source)}
    more = {"header": HEADERS.split(), "query": ASKED}.get(kind, ())
    return sorted(found.union(more))


class Values:
    """By one generator. `proofs`: what lets a caller in, to be bent."""

    def __init__(self, generator: random.Random, proofs: Sequence[bytes]) -> None:
        self._random = generator
        self._proofs = proofs

    def of(self, name: str) -> bytes:
        """Mostly what almost is a value of this name."""
        if self._random.random() < 0.4:
            return self.any()
        if name in ("origin", "host", "referer", "x-forwarded-host"):
            return self._random.choice(URLS.split())
        if name == "cookie":
            names = [*read_names("cookie"), "x"]
            return self._random.choice(names).encode() + b"=" + self._bent()
        if name == "authorization":
            return self._random.choice((b"Bearer ", b"bearer  ", b"Basic ")) + self._bent()
        if name == "cursor":
            return self._cursor()
        if name in ASKED and self._random.random() < 0.7:
            return self._random.choice(ASKED[name])
        return self._bent() if name in ("key", "code", "x-parley-code", "user") else self.any()

    def any(self) -> bytes:
        """Anything."""
        choices: Sequence[Callable[[], bytes]] = (
            lambda: self._random.choice(NASTY),
            lambda: self._random.choice(NASTY),
            lambda: self._random.choice(REPEATED) * self._random.choice(LENGTHS),
            lambda: self._random.choice(DIGITS),
            lambda: (
                uuid7(self._random.randrange(1 << 47)).encode() + self._random.choice((b"", b"\n", b"\0"))
            ),
            lambda: self._random.randbytes(self._random.randrange(40)),
            lambda: self._cursor(),
            lambda: json.dumps(self.json()).encode(),
        )
        return self._random.choice(choices)()

    def text(self) -> str:
        """Anything that JSON can hold."""
        if self._random.random() < 0.1:
            return self._random.choice(("\ud800", "\0", "a\0b", "\u202e", "\ufeff", "e\u0301" * 300))
        return self.any().decode("latin-1")

    def json(self, depth: int = 0) -> object:
        """Anything that JSON can say."""
        match self._random.randrange(8 if depth < 3 else 6):
            case 0:
                return self._random.choice((None, True, False))
            case 1:
                return self._random.choice(INTEGERS)
            case 2:
                return self._random.choice((0.5, -0.0, 1e308, float("inf"), float("nan")))
            case 6:
                return [self.json(depth + 1) for _ in range(self._random.randrange(4))]
            case 7:
                return {self.text(): self.json(depth + 1) for _ in range(self._random.randrange(4))}
            case _:
                return self.text()[:3000]

    def _bent(self) -> bytes:
        """What lets somebody in, or almost."""
        proof = bytearray(self._random.choice([*self._proofs, b"0123456789abcdef" * 2]))
        match self._random.randrange(5):
            case 0:
                return self.any()
            case 1:
                proof[self._random.randrange(len(proof))] = self._random.randrange(256)
            case 2:
                del proof[self._random.randrange(len(proof)) :]
            case 3:
                proof += self._random.choice(NASTY)
            case _:
                sealed = [base64.urlsafe_b64encode(self._random.choice(NASTY)) for _ in range(2)]
                return b".".join(sealed)
        return bytes(proof)

    def _cursor(self) -> bytes:
        ids = (b"", b":", b":x", b":\0", b":" + uuid7(1).encode())
        return base64.urlsafe_b64encode(self._random.choice(DIGITS) + self._random.choice(ids))
