"""Redis ACL users, made of what each process declares (core/access/processes.py). Pure.

A rule can only allow, cannot tell scripts apart, and holds on the node it is given to: docs/hardening.md.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence

from core.access.processes import CONNECT_COMMANDS, PROCESSES, ProcessKind
from core.errors import StartupError

PLAIN = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
REPLICA = "parley-replica"
REPLICA_RULES = ("resetkeys", "resetchannels", "-@all", "+ping", "+psync", "+replconf")


def user_name(process: ProcessKind, pool: str) -> str:
    """Name of a process kind's user; a kind that is bound to pools has one user for each pool."""
    return f"parley-{process.name}" + (f"-{pool}" if process.pools else "")


def rules(process: ProcessKind, installation: str, pool: str) -> list[str]:
    """ACL rules that allow what the process declares and deny everything else."""

    def patterns(kinds: Iterable[str]) -> list[str]:
        return sorted({_pattern(kind, installation, pool if process.pools else "*") for kind in kinds})

    commands = sorted(set(" ".join((CONNECT_COMMANDS, *process.commands)).split()))
    return [
        *("resetkeys", "resetchannels", "-@all"),
        *(f"~{pattern}" for pattern in patterns(process.writes)),
        *(f"%R~{pattern}" for pattern in patterns(set(process.reads) - set(process.writes))),
        *(f"&{pattern}" for pattern in patterns(process.listens)),
        *(f"+{command}" for command in commands),
    ]


def users(installation: str, pools: Sequence[str]) -> dict[str, list[str]]:
    """User → rules, for an installation with these pools."""
    for name in (installation, *pools):
        if not PLAIN.fullmatch(name):
            raise StartupError(f"{name!r} cannot stand in a rule: use letters, digits, dot, - and _")
    found = {
        user_name(process, pool): rules(process, installation, pool)
        for process in PROCESSES
        if process.commands
        for pool in pools
    }
    return {**found, REPLICA: list(REPLICA_RULES)}


def acl_lines(of: Mapping[str, Sequence[str]], passwords: Mapping[str, str]) -> list[str]:
    """Lines of an aclfile. `default` is off, so nobody connects without a name."""
    lines = [
        f"user {name} on #{hashlib.sha256(passwords[name].encode()).hexdigest()} {' '.join(each)}"
        for name, each in of.items()
    ]
    return ["user default off nopass resetkeys resetchannels -@all", *lines]


def set_commands(lines: Iterable[str]) -> list[str]:
    """The same as ACL commands for a running server, `default` last: the client that runs them may be it."""
    first, *rest = [line.removeprefix("user ") for line in lines]
    return [
        f"ACL SETUSER {line}"
        for line in (*(f"{each}".replace(" on ", " reset on ", 1) for each in rest), first)
    ]


def _pattern(kind: str, installation: str, pool: str) -> str:
    for short, tag in (("P:", f"{{p:{pool}}}"), ("T:", "{t:*}"), ("I:", f"{installation}:")):
        if kind.startswith(short):
            kind = tag + kind.removeprefix(short)
    return f"{kind}*" if kind.endswith(":") else kind
