"""A metric that was renamed is on the page under both names, with the labels of each."""

from collections.abc import Iterable

import pytest
from prometheus_client import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric

from core.observability import former_metrics
from core.observability.former_metrics import FormerNames


class ShownFamilies:
    """A counter renamed with its label, one whose label was, one that is as it was, and a histogram."""

    def collect(self) -> Iterable[Metric]:
        """See Collector."""
        for name in ("unclaimed", "failures", "same"):
            family = CounterMetricFamily(name, "what it counts", labels=["reason"])
            family.add_metric(["drain"], 2)
            yield family
        shut = HistogramMetricFamily("shut_seconds", "how long")
        shut.add_metric([], [("1.0", 3), ("+Inf", 4)], 5)
        yield shut


def test_a_renamed_metric_is_shown_under_both_names(monkeypatch: pytest.MonkeyPatch):
    """A dashboard of the version before reads what it read: names, suffixes, labels and figures."""
    monkeypatch.setattr(former_metrics, "METRICS", {"unclaimed": "released", "shut_seconds": "stall_seconds"})
    monkeypatch.setattr(
        former_metrics, "LABELS", {"unclaimed": {"reason": "why"}, "failures": {"reason": "why"}}
    )
    page = generate_latest(FormerNames(ShownFamilies())).decode()
    lines = [line for line in page.splitlines() if not line.startswith("#")]
    assert lines == [
        'unclaimed_total{reason="drain"} 2.0',
        'released_total{why="drain"} 2.0',
        'failures_total{reason="drain",why="drain"} 2.0',
        'same_total{reason="drain"} 2.0',
        'shut_seconds_bucket{le="1.0"} 3.0',
        'shut_seconds_bucket{le="+Inf"} 4.0',
        "shut_seconds_count 4.0",
        "shut_seconds_sum 5.0",
        'stall_seconds_bucket{le="1.0"} 3.0',
        'stall_seconds_bucket{le="+Inf"} 4.0',
        "stall_seconds_count 4.0",
        "stall_seconds_sum 5.0",
    ]
    assert "# TYPE released_total counter" in page
    assert "# TYPE stall_seconds histogram" in page
