"""Models that can be asked for, the pools that serve them, and a tenant's prices. Read from SQL and kept a
moment."""

from dataclasses import dataclass

from billing.api import PinnedPrices, PriceOffer, offered_prices
from billing.pools import ROUTES_KEPT_SECONDS, SHARED, PoolRoute, PoolRoutes, read_routes
from core.clock import monotonic, now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.sql.database import Database
from engine.api import ModelRecord, all_versions, list_versions
from server.protocol.codes import ErrorCode, refusal

KEEP_SECONDS = ROUTES_KEPT_SECONDS
PRICES_KEPT_MAX = 10_000


@dataclass(frozen=True)
class ServedModel:
    """A version of a model, and the pool whose workers run it."""

    record: ModelRecord
    pool: str


class Catalogue:
    """Cache of model versions by name, and of prices."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self._db = db
        self._default, self._pool = settings.model, settings.pool
        self._models: dict[str, ModelRecord] = {}
        self._versions: dict[tuple[str, str], ModelRecord] = {}
        self._routes = PoolRoutes()
        self._read_at = float("-inf")
        self._changes = 0
        self._offers: dict[tuple[str, str], tuple[float, PriceOffer]] = {}

    async def models(self) -> list[ModelRecord]:
        """All models, by name: the version that tenants without a pool of their own get, else any that a
        pool serves, else the newest."""
        if monotonic() - self._read_at > KEEP_SECONDS:
            began, changes = monotonic(), self._changes
            versions, self._routes = await list_versions(self._db), await read_routes(self._db)
            self._versions = {(record.name, record.version): record for record in versions}
            newest = {record.name: record for record in versions}  # which stands last
            self._models = {name: self._served(name) or record for name, record in newest.items()}
            self._read_at = began if changes == self._changes else float("-inf")
        return list(self._models.values())

    async def default(self) -> ModelRecord | None:
        """The model of a turn that names none: that of the pool PARLEY_POOL, without one PARLEY_MODEL, or the
        only one there is."""
        models = await self.models()
        named = self._models.get(self._routes.models.get(self._pool, "")) or self._models.get(self._default)
        return named or (models[0] if len(models) == 1 else None)

    async def pools(self) -> frozenset[str]:
        """All pools that have a row, also those that take nothing new."""
        await self.models()
        return frozenset(self._routes.models)

    async def resolve(self, name: str | None, tenant: str) -> ServedModel:
        """The model of this name, in the version and the pool that serve the tenant. Raises Refused: for an
        unknown model, listing those there are; and where no pool takes the tenant's requests."""
        models = await self.models()
        found = await self.default() if name is None else self._models.get(name)
        if found is None:
            names = ", ".join(model.name for model in models) or "none is installed yet"
            raise Refused(refusal(ErrorCode.UNKNOWN_MODEL, f"unknown model; there are: {names}"))
        placed = self._placed(found.name, self._routes.of(tenant, found.name))
        if placed is None:
            raise Refused(refusal(ErrorCode.OVERLOADED, self._unplaced(found.name)))
        return placed

    async def bound(self, name: str, pool: str, fingerprint: str) -> ServedModel | None:
        """The version that an admitted request is bound to, also one that no pool serves any more; None: it
        is forgotten."""
        versions = await all_versions(self._db)
        found = [each for each in versions if (each.name, each.fingerprint) == (name, fingerprint)]
        return ServedModel(found[-1], pool) if found else None

    async def served_default(self) -> ServedModel | None:
        """The default as tenants without a pool of their own get it; where all its pools are dedicated, as
        one of these has it. None: no pool serves it."""
        default = await self.default()
        if default is None:
            return None
        route = self._routes.of(SHARED, default.name) or self._routes.any_of(default.name)
        return self._placed(default.name, route)

    def _served(self, name: str) -> ModelRecord | None:
        """The version that a pool serves to all, else to anybody; None: no pool does."""
        placed = self._placed(name, self._routes.of(SHARED, name) or self._routes.any_of(name))
        return None if placed is None else placed.record

    def _placed(self, name: str, route: PoolRoute | None) -> ServedModel | None:
        """The version that a route's pool runs; None: there is no route, or no such version."""
        record = None if route is None else self._versions.get((name, route.version))
        return None if route is None or record is None else ServedModel(record, route.pool)

    def _unplaced(self, name: str) -> str:
        """Why no pool takes a tenant's requests for a model, without a word of others' pools."""
        if name not in self._routes.models.values():
            create = f"parley pools create POOL --model {name}"
            return f"no pool serves the model {name}: the operator makes one with `{create}`"
        return f"no pool takes requests for {name} from this tenant now"

    async def prices(self, tenant: str, model: str) -> PinnedPrices:
        """A tenant's prices of a model now. Raises Refused where there are none."""
        return (await self.offer(tenant, model)).at(now_ms())

    async def offer(self, tenant: str, model: str) -> PriceOffer:
        """The same with following prices, for a caller that decides when they apply."""
        kept = self._offers.get((tenant, model))
        if kept is not None and monotonic() - kept[0] < KEEP_SECONDS and not kept[1].begun(now_ms()):
            return kept[1]
        if len(self._offers) >= PRICES_KEPT_MAX:
            self._offers.clear()
        read_at, offers = monotonic(), self._offers
        offers[tenant, model] = (read_at, offer := await offered_prices(self._db, tenant, model))
        return offer

    def routes_changed(self) -> None:
        """Read models and routes anew when they are next asked for; what a read that has begun finds is used
        once."""
        self._changes += 1
        self._read_at = float("-inf")

    def prices_changed(self) -> None:
        """Drop all cached prices, and the results of reads that have begun."""
        self._offers = {}
