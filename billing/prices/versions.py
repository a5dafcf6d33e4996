"""Reads price versions as stored: flat prices, tiers, prices of GPUs."""

from collections.abc import Iterable
from typing import Any

import msgspec
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from billing.prices.files import FlatPrices
from billing.prices.price_file_tiers import TierKey
from billing.prices.rating import Meter
from billing.prices.tiers import TierPrices
from billing.prices.true_up import VersionPrices
from billing.tables.prices import GpuPrice, PriceTier
from billing.tables.tenants import Price, PriceVersion

Contents = tuple[dict[str, FlatPrices], dict[TierKey, TierPrices], dict[str, int]]


def number_at(book_id: str, tenant_id: str, at_ms: int, but: int | None = None) -> Any:
    """Subquery of the version number in force at a time: the last to begin that is not withdrawn. `but`: a
    version to ignore."""
    return (
        select(PriceVersion.version)
        .where(col(PriceVersion.book_id) == book_id, col(PriceVersion.tenant_id) == tenant_id)
        .where(col(PriceVersion.valid_from_ms) <= at_ms, col(PriceVersion.withdrawn_ms).is_(None))
        .where(col(PriceVersion.version) != (but or 0))
        .order_by(col(PriceVersion.valid_from_ms).desc(), col(PriceVersion.version).desc())
        .limit(1)
        .scalar_subquery()
    )


async def contents_of(session: AsyncSession, version: PriceVersion) -> Contents:
    """All contents of a version."""
    return (
        await prices_of(session, version),
        await tiers_of(session, version),
        await gpus_of(session, version),
    )


async def prices_of(session: AsyncSession, version: PriceVersion) -> dict[str, FlatPrices]:
    """All flat prices of a version by model."""
    statement = select(Price).where(
        col(Price.book_id) == version.book_id, col(Price.version) == version.version
    )
    return {
        row.model: FlatPrices(row.input_nano, row.cached_input_nano, row.output_nano, row.request_nano)
        for row in (await session.exec(statement)).all()
    }


def tier_row(version: PriceVersion, key: TierKey, tiers: TierPrices) -> PriceTier:
    """The row of one meter's tiers in a version. Pure."""
    model, meter = key
    return PriceTier(
        book_id=version.book_id,
        version=version.version,
        tenant_id=version.tenant_id,
        model=model,
        meter=meter.value,
        mode=tiers.mode.value,
        tiers=[msgspec.structs.asdict(tier) for tier in tiers.tiers],
        minimum_nano=tiers.minimum_nano,
    )


async def tiers_of(session: AsyncSession, version: PriceVersion) -> dict[TierKey, TierPrices]:
    """All tiers of a version by model and meter."""
    statement = select(PriceTier).where(
        col(PriceTier.book_id) == version.book_id, col(PriceTier.version) == version.version
    )
    return {
        (row.model, Meter(row.meter)): msgspec.convert(
            {"mode": row.mode, "tiers": row.tiers, "minimum_nano": row.minimum_nano}, TierPrices
        )
        for row in (await session.exec(statement)).all()
    }


async def gpus_of(session: AsyncSession, version: PriceVersion) -> dict[str, int]:
    """Prices of 1,000,000 GPU-seconds of a version by type."""
    statement = select(GpuPrice).where(
        col(GpuPrice.book_id) == version.book_id, col(GpuPrice.version) == version.version
    )
    return {row.gpu_type: row.second_nano for row in (await session.exec(statement)).all()}


async def version_prices(
    session: AsyncSession, versions: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], VersionPrices]:
    """These versions (book, number) in the form of true-ups, without those that do not exist."""
    found: dict[tuple[str, int], VersionPrices] = {}
    for book, number in sorted(set(versions)):
        version = await session.get(PriceVersion, (book, number))
        if version is not None:
            flat, tiers = await prices_of(session, version), await tiers_of(session, version)
            found[book, number] = as_version(version.valid_from_ms, flat, tiers)
    return found


def as_version(
    valid_from_ms: int, flat: dict[str, FlatPrices], tiers: dict[TierKey, TierPrices]
) -> VersionPrices:
    """Build the prices by model and meter. Pure."""
    by_meter: dict[TierKey, int] = {}
    for model, prices in flat.items():
        by_meter[model, Meter.INPUT] = prices.input_nano
        by_meter[model, Meter.CACHED_INPUT] = prices.cached_input_nano
        by_meter[model, Meter.OUTPUT] = prices.output_nano
        by_meter[model, Meter.REQUEST] = prices.request_nano
    return VersionPrices(valid_from_ms, by_meter, tiers)
