"""A gateway in virtual time, and a client that plays."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from billing.api import Principal
from core.configuration.settings import Settings
from tests.server.site import tiny_model
from tests.server.virtual.gateway import VirtualGateway, virtual_gateway
from tests.server.virtual.loop import played

Play = Callable[[VirtualGateway], Awaitable[None]]

Playing = Callable[[Play], None]

TENANT, PROJECT = "t1", "p1"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tests' tiny model."""
    return tiny_model(tmp_path_factory.mktemp("virtual") / "tiny")


@pytest.fixture
def playing(settings: Settings, model: Path) -> Playing:
    """Plays with a gateway in virtual time."""

    def play(what: Play) -> None:
        async def whole() -> None:
            async with virtual_gateway(settings, model) as gateway:
                await what(gateway)

        played(whole())

    return play


def key(gateway: VirtualGateway, **facts: Any) -> tuple[str, Principal]:
    """A key of the tenant."""
    return gateway.keys.make(TENANT, PROJECT, **facts)
