"""What a taken-over worker sends to Redis: calls of scripts with anything in every argument. Pure.

Arguments are made of each script's own struct, so that a new script or field is tried as well.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args, get_origin

import msgspec

from chaos.bench.fuzz.plants import (
    CLASSES,
    CROWD,
    FINGERPRINT,
    GATEWAYS,
    IDS,
    POOL,
    TENANTS,
    WORKERS,
    Plants,
    limits,
)
from core.redis.script_calls import ScriptCall, Signed, shape_of
from core.redis.scripts import Script

# Kinds of the keys that a script of a tenant takes, in order; a script of a pool takes the pool's own record.
KEYS: Mapping[str, str] = {
    "admit": "T:rq: T:cancel: T:conc T:live T:rate: T:conc: T:money:",
    "extend": "T:rq:",
    "settle": "T:rq: T:posted T:windows",
    "release": "T:rq: T:conc T:live",
    "cancel": "T:rq: T:cancel:",
    "rebind": "T:rq:",
    "seed": "T:posted T:windows T:moneys T:money: T:money:",
    "forget": "T:posted T:money: T:money:",
    "limits": "T:money: T:money:",
    "take": "T:money:",
    "end_take": "T:money:",
    "since": "T:posted",
    "taken": "P:ready P:ready_open",
    "connection_admit": "T:conns: T:conns:",
    "connection_keep": "T:conns:",
    "session_resume": "T:sess: T:sess:",
    "session_confirm": "T:sess:",
}
# Good values of fields with these names.
LIKELY: Mapping[str, Sequence[Any]] = {
    "tenant": TENANTS,
    "id": IDS,
    "worker": WORKERS,
    "gateway": GATEWAYS,
    "supervisor": WORKERS,
    "addressee": WORKERS,
    "fingerprint": (FINGERPRINT,),
    "ck": ("ck",),
    "priority": CLASSES,
    "highest": CLASSES,
    "lowest": CLASSES,
    "why": ("drain", "lost", "park", "grant", "preempt", "error"),
    "state": ("reading", "stuck", "gone", "ready", "draining"),
    "kind": ("drain", "kill"),
    "body_hash": ("hash",),
    "pool": (POOL, "other"),
    "dest": ("other",),
    "now_ms": (0,),
    "limits": (limits(1), limits(3), limits(64)),
    "next_limits": (limits(1),),
    "key": ("k1", "money:tenant::day:1"),
    "window": ("money|tenant|day|1",),
    "control": (0, 1, 2, 4, 8),
    "slots": (16,),
    "picks_max": (16,),
    "budget": (100,),
    "memory_fraction_max": (0.9,),
}
LENGTHS = (0, 1, 1, 2, 3, 64)
LONG = (300, 2_000, CROWD)


class ScriptInputs:
    """Calls of scripts, by one generator."""

    def __init__(self, generator: random.Random, plants: Plants) -> None:
        self._random = generator
        self._plants = plants
        self._makers: Sequence[tuple[type, Callable[[], Any]]] = (
            (bool, lambda: generator.random() < 0.5),
            (bytes, self._bytes),
            (int, lambda: generator.choice((0, 1, 7, 256, 1_000, 60_000))),
            (float, lambda: generator.choice((0.5, 1.0, 1000.0))),
            (str, self._text),
        )

    def of(self, script: Script[Any, Any]) -> list[str | bytes | int]:
        """One of this script: its sha, keys and arguments."""
        keys = self._keys(script.name)
        return [script.sha, len(keys), *keys, *self._arguments(script.call)]

    def _keys(self, script: str) -> list[str]:
        kinds = KEYS.get(script, "P:sys").split()
        if self._random.random() < 0.1:  # a worker may name any key that it may write
            return [self._plants.key(None) for _ in kinds]
        tenant = self._random.choice(TENANTS)
        repeated = 300 if self._random.random() < 0.02 else 1
        return [self._plants.key(kind, tenant) for kind in kinds] + [self._plants.key(kinds[-1], tenant)] * (
            repeated - 1
        )

    def _arguments(self, call: type[ScriptCall]) -> list[bytes]:
        shape = shape_of(call)
        long = self._random.random() < 0.03
        fields = {field.name: field for field in msgspec.structs.fields(call)}
        mapped = {
            fields[name].encode_name: self._value(fields[name].type, name, long) for name in shape.mapped
        }
        if self._random.random() < 0.4:
            _spoil(self._random, mapped, self._plants.odd)
        packed = _packed(mapped) if self._random.random() < 0.97 else self._plants.any_bytes()
        beside = [self._value(bytes, name, long) for name in shape.beside]
        rest = [self._bytes() for _ in range(self._length(long))] if shape.rest else []
        return [packed, *beside, *rest][: None if self._random.random() < 0.97 else 1]

    def _value(self, kind: Any, name: str, long: bool) -> Any:
        if kind == Signed:
            return self._random.choice((-1, 0, 1))
        parts = get_args(kind)
        if type(None) in parts:
            inner = next(part for part in parts if part is not type(None))
            return None if self._random.random() < 0.3 else self._value(inner, name, long)
        if get_origin(kind) is list:
            one = self._value(parts[0], name, long=False)
            return [
                self._value(parts[0], name, False) if at < 64 else one for at in range(self._length(long))
            ]
        if get_origin(kind) is tuple:
            return [self._value(part, "", False) for part in parts]
        if issubclass(kind, msgspec.Struct):
            return {
                each.encode_name: self._value(each.type, each.name, long)
                for each in msgspec.structs.fields(kind)
            }
        if name in LIKELY and self._random.random() < 0.9:
            return self._random.choice(LIKELY[name])
        return next(make for known, make in self._makers if issubclass(kind, known))()

    def _length(self, long: bool) -> int:
        return self._random.choice(LONG if long else LENGTHS)

    def _bytes(self) -> bytes:
        return self._random.choice((b"", b"x", b"\1\0\0\0\2\0\0\0", limits(2), self._plants.any_bytes()))

    def _text(self) -> str:
        return self._random.choice(("", "x", "t", "end", "stop", "1-0", "0.0", *IDS))


def _spoil(generator: random.Random, mapped: dict[str, Any], odd: Callable[[], Any]) -> None:
    """Put something odd at one place of the arguments, however deep."""
    within: Any = mapped
    while isinstance(within, dict | list) and within:
        at = generator.choice(sorted(within) if isinstance(within, dict) else range(len(within)))
        inner: Any = within[at]
        if not isinstance(inner, dict | list) or not inner or generator.random() < 0.3:
            within[at] = odd()
            return
        within = inner


def _packed(value: object) -> bytes:
    try:
        return msgspec.msgpack.encode(value)
    except (OverflowError, UnicodeEncodeError):  # what MessagePack cannot say
        return b"\xc0"
