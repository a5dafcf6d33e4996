"""What a gateway says that refuses."""

from typing import Any

from tests.server.site import RawPeer
from tests.support.patience import wait_until


async def refusal(peer: RawPeer, **fields: Any) -> dict[str, Any]:
    """Send until it is refused: the news of a limit takes a moment to come."""

    async def refused() -> dict[str, Any] | None:
        id = await peer.send(**fields)
        while True:
            frame = await peer.hear()
            if frame.get("id") == id and frame["t"] == "error":
                return frame
            if frame.get("id") == id and frame["t"] == "accepted":
                return None

    found = await wait_until(refused)
    assert found is not None
    return found
