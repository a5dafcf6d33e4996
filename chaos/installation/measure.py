"""What a process has used, by the kernel's account of it (/proc; Linux only)."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class CpuUsage:
    """CPU seconds of a process, all its threads, at a moment of the monotonic clock."""

    at: float
    user_seconds: float
    system_seconds: float

    @classmethod
    def of(cls, pid: int) -> "CpuUsage":
        """As it stands now."""
        # The name, second of the fields, may hold spaces; it ends at the last parenthesis.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        user, system = int(fields[11]), int(fields[12])
        return cls(time.monotonic(), user / TICKS_PER_SECOND, system / TICKS_PER_SECOND)

    @property
    def cpu_seconds(self) -> float:
        """User and system together."""
        return self.user_seconds + self.system_seconds


def memory_bytes(pid: int) -> int:
    """The proportional set size: a process's own memory, and its share of what it shares with others."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this kernel does not tell the proportional set size")


def resident_bytes(pid: int) -> int:
    """The resident set size. Cheaper to read than `memory_bytes`."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES


def socket_memory_bytes() -> int:
    """What the kernel holds in TCP buffers of all processes of this machine."""
    for line in Path("/proc/net/sockstat").read_text().splitlines():
        if line.startswith("TCP:"):
            words = line.split()
            return int(words[words.index("mem") + 1]) * PAGE_BYTES
    return 0
