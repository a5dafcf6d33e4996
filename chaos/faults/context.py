"""What a fault may reach: the installation, who asks there, and what it leaves running."""

import asyncio
from dataclasses import dataclass, field

from chaos.installation.cluster import Installation
from chaos.judge.leaks import Overheard
from chaos.observations import Answered, Outage
from chaos.workload import Crowd


@dataclass
class FaultContext:
    """One round. `group` keeps what a fault starts and does not wait for; `answers` are those of readers
    that a fault brought, `memory_mib` the most that a gateway was seen to hold, `warm_only`: workers are hit
    only while others have room for what they hold."""

    cluster: Installation
    crowd: Crowd
    group: asyncio.TaskGroup
    answers: list[Answered] = field(default_factory=list[Answered])
    warm_only: bool = False
    outages: list[Outage] = field(default_factory=list[Outage])
    memory_mib: float = 0.0
    overheard: Overheard = field(default_factory=Overheard)
    struck: set[str] = field(default_factory=set[str])
    """Workers that were killed: their pids may be others' by now."""
