"""The dearest requests are taken from the end of an index: no hour of requests is sorted."""

from billing.periods import HOUR_MS, PeriodWindow
from billing.posting.biller import post
from billing.reports.usage_questions import Facet
from billing.requests import dearest
from billing.requests.dearest import DearestQuestion
from billing.usage import encode
from core.sql.database import Database
from tests.billing.events import an_event
from tests.support.plans import plan_of

DAY = PeriodWindow(0, 24 * HOUR_MS)
QUESTION = DearestQuestion("t1", DAY, Facet.KEY, "k1")


async def test_each_cell_is_read_from_the_end_of_the_index(database: Database) -> None:
    """To find which cells to read, and to read them: by key, model and hour, in the order of costs."""
    events = [an_event(f"r{n}", ended_ms=n * HOUR_MS // 2, output_text=n) for n in range(48)]
    await post(database, "default", [encode(each) for each in events])
    cells = await plan_of(database, dearest.cells_of(QUESTION, 8))
    assert "ix_usage_event_cost" in cells
    cell = dearest.events_of(QUESTION, "k1", "smollm2", 3, *dearest.columns()).limit(8)
    plan = await plan_of(database, cell)
    assert "ix_usage_event_cost" in plan
    assert "ORDER BY" not in plan
    assert "Sort" not in plan
    found = await dearest.dearest(database, QUESTION, 3)
    assert [each.request for each in found] == ["r47", "r46", "r45"]
