"""What takes long over the API: it is answered with a run, which another console shows and stops."""

import httpx

from tests.admin.api.conftest import ApiSite
from tests.engine.builders import Pool
from tests.support.patience import wait_until

DRAIN = "/api/workers/w1/drain"


async def drain(browser: httpx.AsyncClient, key: str = "k1") -> httpx.Response:
    """Ask for a drain of a worker that never ends."""
    return await browser.post(DRAIN, json={"reason": "move"}, headers={"idempotency-key": key})


async def test_a_drain_is_a_run_that_another_console_stops(site: ApiSite) -> None:
    """Its call says where; repeated under its key it is the same run. Once stopped it says what it did."""
    await Pool(site.redis, site.settings, clock=None).running()  # pyright: ignore[reportArgumentType]
    ann, bob = await site.signed_in(), await site.signed_in(name="Bob")
    would = await ann.post(f"{DRAIN}?dry_run=true", json={"reason": "move"})
    assert (would.status_code, would.json()["held"]) == (200, 1)
    unknown = await ann.post(DRAIN.replace("w1", "w9"), json={"reason": "move"})
    assert unknown.status_code == 404
    begun = await drain(ann)
    where = begun.headers["location"]
    assert (begun.status_code, where) == (202, f"/api/runs/{begun.json()['run']}")
    again = await drain(ann)
    assert (again.status_code, again.headers["location"]) == (202, where)
    running = (await bob.get(where)).json()
    assert (running["state"], running["by"], running["operation"]) == ("running", "Ann", "workers.drain")
    assert (await bob.post(f"{where}/stop")).json()["stop_asked"]

    async def ended() -> bool:
        return (await bob.get(where)).json()["state"] != "running"

    await wait_until(ended)
    stopped = (await bob.get(where)).json()
    assert (stopped["state"], stopped["answer"]["gone"]) == ("stopped", False)
    assert [event["what"] for event in stopped["events"]] == ["w1 has 1 in hand"]
    (listed,) = (await bob.get("/api/runs")).json()["items"]
    assert listed["state"] == "stopped"
    assert (await drain(ann)).headers["location"] == where
    document = (await ann.get("/openapi.json")).json()["paths"]["/api/workers/{worker}/drain"]["post"]
    later = document["responses"]["202"]
    assert (later["description"], later["headers"]["Location"]["required"]) == ("It goes on as a run.", True)
    assert later["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/StartedRun"}
