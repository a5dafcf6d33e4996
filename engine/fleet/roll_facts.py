"""What a change of a pool's version needs to know: requests that pin old versions, and whether the node's
memory holds a worker of the next one. Looks only while more than one version is about."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

import psutil
from redis.exceptions import NoPermissionError

from core.configuration.settings import Settings
from core.observability.error_facts import error_summary
from core.observability.telemetry import RepeatedWarning, logger
from core.redis.client import RedisClient
from core.runtime.failed_rounds import store_errors
from core.sql.database import Database
from engine.fleet.observed import NextWorkerFit, PinnedRequests, PoolTarget
from engine.fleet.version_counts import LINGER_MS
from engine.models.registry import ModelRecord, all_versions
from engine.node.reports import NodeReport
from engine.queue.living_requests import living_requests

MIB = 1 << 20
GPU_SHARE_MAX = 0.9  # of a GPU's memory, which vLLM takes by default
WEIGHTS = "*.safetensors"
ACL = "requests cannot be counted: make the fleet's Redis user anew with `parley redis acl`"

log = logger(__name__)
repeated = RepeatedWarning(log)


class RollFacts:
    """The facts of all pools. Holds since when no request pins a version, so a new controller waits anew."""

    def __init__(self, settings: Settings, db: Database, redis: RedisClient) -> None:
        self._settings = settings
        self._db = db
        self._redis = redis
        self._records: list[ModelRecord] = []
        self._none_since_ms = dict[tuple[str, str], int]()
        self._settled = dict[str, int]()
        self._weights = dict[Path, int]()

    async def see(
        self, target: PoolTarget, reports: Sequence[NodeReport], now_ms: int
    ) -> tuple[Mapping[str, PinnedRequests], NextWorkerFit]:
        """Requests by old version, and what is known of memory for the next one."""
        running = {slot.version for report in reports for slot in report.slots} - {target.version, ""}
        if running and not self.fingerprint(target.model, target.version):
            await self._read_records()
        running -= self.same(target, reports)
        if not running and not target.next_version and self._settled.get(target.pool) == target.generation:
            return {}, NextWorkerFit()
        await self._read_records()
        pinned = await self._pinned(target, running, now_ms)
        settled = [not each.requests and now_ms - each.none_since_ms >= LINGER_MS for each in pinned.values()]
        if not running and not target.next_version and all(settled):
            self._settled[target.pool] = target.generation
        return pinned, await self._fit(target, reports)

    def same(self, target: PoolTarget, reports: Sequence[NodeReport]) -> set[str]:
        """Other versions that run, and are the one in use by another name: they serve its requests. The next
        version is none of them, as it is made ready under its own name."""
        in_use = self.fingerprint(target.model, target.version)
        slots = [slot for report in reports for slot in report.slots]
        named = {slot.version for slot in slots if in_use and slot.fingerprint == in_use}
        return named - {target.version, target.next_version, ""}

    def fingerprint(self, model: str, version: str) -> str:
        """A version's fingerprint; empty where it is not known."""
        found = [each for each in self._records if (each.name, each.version) == (model, version)]
        return found[0].fingerprint if found else ""

    async def _read_records(self) -> None:
        """Read the versions that there are; while the database is away those of before count."""
        try:
            self._records = await all_versions(self._db)
        except store_errors() as error:
            repeated.warning("fleet.versions_failed", error=error_summary(error))

    async def _pinned(self, target: PoolTarget, running: set[str], now_ms: int) -> dict[str, PinnedRequests]:
        try:
            counts, until_ms = await pinned_requests(self._redis, target.pool)
        except NoPermissionError:  # a user of an older release
            return {each: PinnedRequests(0, why=ACL) for each in running}
        in_use = self.fingerprint(target.model, target.version)
        versions = {each.fingerprint: each.version for each in self._records if each.name == target.model}
        versions |= {self.fingerprint(target.model, each): each for each in running}
        found = {each: PinnedRequests(0) for each in {*running, *versions.values()} - {target.version}}
        for fingerprint, requests in counts.items():
            version = versions.get(fingerprint, "")
            if version in found and fingerprint != in_use:
                found[version] = PinnedRequests(requests, until_ms[fingerprint])
        return {each: self._since(target.pool, each, pins, now_ms) for each, pins in found.items()}

    def _since(self, pool: str, version: str, pins: PinnedRequests, now_ms: int) -> PinnedRequests:
        if pins.requests:
            self._none_since_ms.pop((pool, version), None)
            return pins
        return PinnedRequests(0, 0, self._none_since_ms.setdefault((pool, version), now_ms))

    async def _fit(self, target: PoolTarget, reports: Sequence[NodeReport]) -> NextWorkerFit:
        named = (target.model, target.next_version)
        record = next((each for each in self._records if (each.name, each.version) == named), None)
        if record is None:
            return NextWorkerFit()
        if record.folder not in self._weights:
            self._weights[record.folder] = await asyncio.to_thread(weights_bytes, record.folder)
        here = [each for each in reports if each.node == self._settings.node]
        devices = [each.memory_total_mib for report in here for each in report.devices]
        totals = [each for each in devices if each is not None]
        weights = self._weights[record.folder]
        if totals:
            return gpu_fit(weights, min(totals) * MIB)
        held = max((slot.memory_mib or 0 for report in here for slot in report.slots), default=0)
        free = psutil.virtual_memory().available
        return memory_fit(weights, self._settings.worker_kv_mib * MIB, free, held * MIB)


async def pinned_requests(redis: RedisClient, pool: str) -> tuple[Counter[str], dict[str, int]]:
    """How many living requests of a pool have which fingerprint, and the last deadline of each."""
    counts, until_ms = Counter[str](), dict[str, int]()
    async with aclosing(living_requests(redis, pool)) as requests:
        async for each in requests:
            counts[each.fingerprint] += 1
            until_ms[each.fingerprint] = max(until_ms.get(each.fingerprint, 0), each.deadline_ms)
    return counts, until_ms


def weights_bytes(folder: Path) -> int:
    """Bytes of a model's weights; 0 where they do not lie here. Reads no content."""
    try:
        return sum(file.stat().st_size for file in folder.glob(WEIGHTS))
    except OSError:
        return 0


def memory_fit(weights: int, kv: int, free: int, held: int) -> NextWorkerFit:
    """Whether `free` bytes hold a worker beside those that run, or with the `held` ones of the largest of
    them. Weights of 0 bytes are not known. Pure."""
    need = weights + kv
    if not weights or need <= free:
        return NextWorkerFit()
    beside = f"a worker of it takes {_gib(need)} and {_gib(free)} are free"
    if need <= free + held:
        return NextWorkerFit(beside=beside)
    return NextWorkerFit(beside, f"{beside}, {_gib(free + held)} in the place of another worker")


def gpu_fit(weights: int, total: int) -> NextWorkerFit:
    """Whether a GPU of `total` bytes holds a worker's weights. Pure."""
    if weights <= total * GPU_SHARE_MAX:
        return NextWorkerFit()
    why = f"its weights are {_gib(weights)}, a GPU of this machine has {_gib(total)}"
    return NextWorkerFit(why, why)


def _gib(bytes_: int) -> str:
    return f"{bytes_ / (1 << 30):.1f} GiB"
