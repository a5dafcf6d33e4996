"""What a taken-over worker plants in Redis by plain commands: keys of every kind that it may write, of the
right type and of wrong ones, with odd members, records and scores, some with 10,000 members. Pure, but for
the minutes of figures, which are those of the clock.

Fields are the words that scripts quote (found in their source), so that a new one is tried as well.
"""

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from chaos.bench.fuzz.values import NASTY
from core.access.processes import WORKER
from core.clock import now_ms
from core.observability.recent_figures import MINUTE_MS
from core.observability.request_figures import BOUNDS_MS

ROOT = Path(__file__).parents[3]
POOL, FINGERPRINT = "default", "f"
TENANTS, IDS, WORKERS, GATEWAYS = ("t1", "t2"), ("r1", "r2", "r3", "r4"), ("w1", "w2", "w3"), ("g1", "g2")
INSTALLATION, CLASSES = "parley", ("interactive", "standard", "bulk")
FIGURE_FIELDS = (
    *(f"{metric}:bulk:{bound}" for metric in BOUNDS_MS for bound in (5, 90, 1_000, "over", "", -1, "9" * 30)),
    *("ended:bulk:stop", "ended:bulk:internal", "output_tokens", "level:running:a", "sampled:a", "sampled:b"),
)
CROWD = 10_000
AT_ONCE = 20_000  # parts of a command

Command = Sequence[str | bytes | int | float]

# The type of each kind of key that a worker may write.
TYPES = {
    kind: type_
    for type_, kinds in {
        "hash": "P:req: P:rd: P:worker: P:ten: P:sys P:replayed P:engine_hours P:ended_hours P:dropped "
        "T:rq: T:posted T:dropped T:money: T:money~: I:figures:",
        "zset": "P:ids: P:big: P:age: P:act: P:deadlines P:parked P:unread P:workers P:gws P:moving T:conc "
        "T:live T:windows T:conc: T:conc~:",
        "set": "P:blocked: P:claims: P:bigs: P:fresh: P:suspects: P:run: P:reads:",
        "string": "P:in: P:tok: P:grave: P:trial: P:verdict: T:rate: T:rate~:",
        "list": "P:wake P:orders: P:trials:",
        "stream": "P:log: P:ended",
    }.items()
    for kind in kinds.split()
}
# How the names of keys of a kind end: of a request, a class, a worker and so on.
ENDS = {
    kind: end
    for end, kinds in {
        "{t}:{id}": "P:req: P:in: P:tok: P:log: P:rd: P:grave: P:trial:",
        "{c}": "P:blocked: P:age: P:act:",
        "{c}:{t}": "P:ids: P:big:",
        "{w}": "P:worker: P:claims: P:bigs: P:fresh: P:suspects: P:orders:",
        "{t}": "P:run: P:ten:",
        "{g}": "P:reads:",
        "f": "P:trials: P:verdict:",
        "{id}": "T:rq:",
        "tenant::*:{n}": "T:rate: T:rate~: T:conc: T:conc~:",
        "tenant::day:{n}": "T:money: T:money~:",
        "{m}": "I:figures:",
    }.items()
    for kind in kinds.split()
}
NUMBERS = (
    *(
        b"inf",
        b"-inf",
        b"nan",
        b"0x10",
        b"1.5",
        b"-1",
        b"1e300",
        b"-0",
        b"",
        b" 7",
        b"1_0",
        b"9" * 18,
        b"9" * 400,
    ),
    *(
        b"9007199254740991",
        b"9007199254740992",
        b"9007199254740993",
        b"9000000000000000",
        b"-9007199254740992",
    ),
)
SMALL = (b"0", b"1", b"2", b"7", b"60000", b"1800000000000000", b"1000")
PACKED = (
    b"\xdc\xff\xff" + b"\x90" * 65_535,
    b"\xdd\0\3\xff\xff" + b"\x90" * 0x3FFFF,
    b"\xdd\xff\xff\xff\xff",
    b"\x91" * 4_000,
    b"\xdf\xff\xff\xff\xff",
    b"\x81\xa1x\xc0",
    b"\xcb\x7f\xf0" + b"\0" * 6,
)
SCORES = (
    "-inf",
    "+inf",
    "1e308",
    "0",
    "-1",
    "1.5",
    "9007199254740993",
    "1",
    "1800000000000",
    "4000000000000",
)


def limits(count: int, name: str = "") -> bytes:
    """Packed limits of a record: of rates, concurrency and money so many, and prices."""
    rates = [[name or f"rate:tenant::*:{at}", 1 + at % 4, 60, 60, False] for at in range(count)]
    places = [[name or f"conc:tenant::*:{at}", 5, False] for at in range(count)]
    day = 4_000_000_000_000
    money = [[name or f"money:tenant::day:{at}", 10**12, 0, 0, True, False, day, 1] for at in range(count)]
    return b"".join(
        msgspec.msgpack.encode(part) for part in (rates, places, money, [1_000_000, 2_000_000, 0])
    )


LIKELY: Mapping[str, Sequence[bytes]] = {
    "status": tuple(b"queued queued queued running running parked moving moved ended".split()),
    "state": tuple(b"open open released ended".split()),
    "class": tuple(each.encode() for each in CLASSES),
    "highest": tuple(each.encode() for each in CLASSES),
    "place": (b"queued", b"parked"),
    "lane": (b"large", b"normal"),
    "worker": tuple(each.encode() for each in WORKERS),
    "fingerprint": (FINGERPRINT.encode(),),
    "ck": (b"ck",),
    "pool": (POOL.encode(), b"other"),
    "limits": (limits(1), limits(3), limits(64), limits(CROWD), limits(1, "ticket:x"), limits(1, "rq:r1")),
    "answer": (msgspec.msgpack.encode([0, [["t1", "r1", "ck"]] * CROWD, []]), b"\x93\x00\x91\x01\x91\x01"),
    "body_hash": (b"hash",),
    "seed": (b"1",),
    "hung": (b"1",),
}


@cache
def quoted_words() -> Sequence[str]:
    """The words that stand in quotes in scripts: fields among them."""
    sources = [
        path.read_text()
        for folder in ("core", "engine", "billing")
        for path in (ROOT / folder).rglob("*.lua")
    ]
    return sorted({word for source in sources for word in re.findall(r"'([a-z_]{1,20})'", source)})


class Plants:
    """Plain commands, by one generator."""

    def __init__(self, generator: random.Random) -> None:
        self._random = generator
        self._makers: Mapping[str, Callable[[str | bytes], list[Command]]] = {
            "hash": self._hash,
            "zset": self._sorted_set,
            "set": self._set,
            "string": lambda key: [("SET", key, self._value(""))],
            "list": lambda key: [("RPUSH", key, self._member(), self.any_bytes())],
            "stream": self._stream,
        }

    def some(self) -> list[Command]:
        """A few of one input."""
        kinds = self._random.choices(sorted(TYPES), k=self._random.choice((0, 1, 1, 2, 4)))
        return [command for kind in kinds for command in self.of(kind)]

    def of(self, kind: str) -> list[Command]:
        """A key of one kind, now and then of another type than its kind has."""
        key, wrong = self.key(kind), self._random.random() < 0.1
        type_ = self._random.choice(sorted(self._makers)) if wrong else TYPES[kind]
        drop: list[Command] = [("DEL", key)] if wrong or self._random.random() < 0.1 else []
        return drop + self._makers[type_](key)

    def crowd(self, kind: str) -> list[Command]:
        """Keys of one kind with 10,000 members each, of requests that mostly have records."""
        found: list[Command] = []
        for key in sorted({self.key(kind) for _ in range(3)}, key=str):
            found += self._crowded(key, TYPES[kind])
        return found

    def records(self, count: int = 300) -> list[Command]:
        """Records of many of the crowd, each odd in its way, that are due at once."""
        found: list[Command] = []
        for at in range(count):
            fields = self._fields()
            found.append(("HSET", f"{{p:{POOL}}}req:t1:c{at}", *fields))
            found.append(
                ("ZADD", f"{{p:{POOL}}}deadlines", self._random.choice(("-inf", "0", "1")), f"t1:c{at}")
            )
        return found

    def key(self, kind: str | None, tenant: str = "") -> str:
        """A key of this kind, or of any that a worker may write."""
        kind = kind or self._random.choice(WORKER.writes)
        chosen = self._random.choice
        tags = {"T": f"{{t:{tenant or chosen(TENANTS)}}}", "P": f"{{p:{POOL}}}", "I": f"{INSTALLATION}:"}
        end = ENDS.get(kind, "{id}") if kind.endswith(":") else ""
        named = {"c": chosen(CLASSES), "w": chosen(WORKERS), "g": chosen(GATEWAYS), "id": chosen(IDS)}
        number = self._random.randrange(3)
        named["m"] = str(now_ms() // MINUTE_MS * MINUTE_MS - number * MINUTE_MS)
        return tags[kind[0]] + kind[2:] + end.format(t=chosen(TENANTS), n=number, **named)

    def odd(self) -> object:
        """What no argument should be, or almost one."""
        text = self._random.choice((*NUMBERS, *NASTY)).decode("latin-1")
        known = (
            float("inf"),
            float("-inf"),
            float("nan"),
            1.5,
            -1,
            2**53,
            -(2**53),
            2**63 - 1,
            1e300,
            None,
            True,
            [],
            {},
        )
        return self._random.choice((*known, *known, text, "x" * 10_001, [[[[]]]], {"a": 1}))

    def any_bytes(self) -> bytes:
        """Anything."""
        return self._random.choice(
            (self._random.choice(NASTY), self._random.choice(PACKED), self._random.randbytes(20))
        )

    def _value(self, field: str) -> bytes:
        if field in LIKELY and self._random.random() < 0.85:
            return self._random.choice(LIKELY[field])
        known = (*SMALL, *SMALL, *NUMBERS, json.dumps({"prefill_tokens_per_second": "inf"}).encode())
        return self._random.choice(known) if self._random.random() < 0.8 else self.any_bytes()

    def _fields(self) -> list[str | bytes]:
        words = [word for word in quoted_words() if word in LIKELY or self._random.random() < 0.7]
        if self._random.random() < 0.2:
            words = self._random.sample(words, 5)
        return [part for word in words for part in (word, self._value(word))]

    def _member(self) -> str | bytes:
        chosen = self._random.choice
        request = f"{chosen(TENANTS)}:{chosen(IDS)}"
        names = (request, request, chosen(IDS), chosen(TENANTS), chosen(WORKERS), chosen(GATEWAYS))
        windows = ("money|tenant|day|1", "money|key|day|0", "money:tenant::day:1", "ticket|tenant|a|0", "|||")
        odd = (b"\xff\xfe", b"", b":", b"nocolon", b"x" * 1_001, b"a:b:c")
        return chosen((*names, *names, *windows, *odd))

    def _hash(self, key: str | bytes) -> list[Command]:
        fields = self._fields()
        if str(key).startswith(f"{INSTALLATION}:"):
            names = self._random.sample(FIGURE_FIELDS, 6)
            fields += [part for name in names for part in (name, self._value(""))]
        if self._random.random() < 0.3:
            fields += [self._member(), self._value("")]
        return [("HSET", key, *fields)]

    def _sorted_set(self, key: str | bytes) -> list[Command]:
        pairs = [
            part
            for _ in range(self._random.choice((1, 3, 10)))
            for part in (self._random.choice(SCORES), self._member())
        ]
        return [("ZADD", key, *pairs)]

    def _set(self, key: str | bytes) -> list[Command]:
        return [("SADD", key, *[self._member() for _ in range(self._random.choice((1, 3, 10)))])]

    def _stream(self, key: str | bytes) -> list[Command]:
        last = "18446744073709551615-18446744073709551615"  # nothing can be added after it
        at = self._random.choice(
            ("*", "*", "1-0", "7-0", "9007199254740993-0", "18446744073709551614-1", last)
        )
        field = self._random.choice(("e", "x", "k", "v", "p", "r", "i"))
        return [("XADD", key, at, field, self._value(""), self._random.choice("xkv"), self.any_bytes())]

    def _crowded(self, key: str | bytes, type_: str) -> list[Command]:
        t = self._random.choice(TENANTS)
        names = [f"{t}:c{at}" for at in range(CROWD)]
        if self._random.random() < 0.3:
            names = [f"c{at}" for at in range(CROWD)]
        if type_ == "zset":
            if "windows" in str(key):
                names = [f"money|tenant|day{at}|1" for at in range(CROWD)]
            score = self._random.choice(SCORES)
            parts: list[Any] = [part for name in names for part in (score, name)]
            return _cut("ZADD", key, parts)
        if type_ == "hash":
            return _cut("HSET", key, [part for name in names for part in (name, b"1")])
        if type_ == "list":
            return _cut("RPUSH", key, names)
        if type_ == "stream":
            return [("XADD", key, "*", "e", b"x") for _ in range(CROWD)]
        return _cut("SADD", key, names) if type_ == "set" else [("SET", key, b"\1\0\0\0" * CROWD)]


def _cut(command: str, key: str | bytes, parts: Sequence[Any]) -> list[Command]:
    return [(command, key, *parts[at : at + AT_ONCE]) for at in range(0, len(parts), AT_ONCE)]
