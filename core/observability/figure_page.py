"""A process's figures of requests as histograms for Prometheus.

Not OpenTelemetry's: its `record` takes microseconds, and of gaps between tokens there are as many as tokens.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString  # pyright: ignore[reportUnknownVariableType]

from core.observability.request_figures import FIGURES, FigureSeries, RequestFigures

# By metric: name, what it says, labels.
SHOWN = {
    "queue_wait": (
        "parley_queue_wait_seconds",
        "From accepted to the first claim, or to an end without",
        ("class", "outcome"),
    ),
    "first_token": ("parley_first_token_seconds", "From accepted to the first token in the log", ("class",)),
    "between_tokens": ("parley_between_tokens_seconds", "Between two samplings of an answer", ("class",)),
    "duration": ("parley_request_seconds", "From accepted to the end", ("class", "outcome")),
}


class FigureCollector(Collector):
    """Collects what a process has counted since its start."""

    def __init__(self, figures: RequestFigures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """A family for each metric that anything was observed of."""
        found = self._figures.shown()
        for metric, (name, what, labels) in SHOWN.items():
            family = HistogramMetricFamily(name, what, labels=labels)
            for (of, *said), series in sorted(found.items(), key=lambda each: each[0]):
                if of == metric:
                    family.add_metric(said[: len(labels)], _buckets(series), series.sum_ms / 1000)
            yield family


def _buckets(series: FigureSeries) -> Sequence[tuple[str, float]]:
    bounds = [*(bound / 1000 for bound in series.bounds), float("inf")]
    return [(floatToGoString(le), n) for le, n in zip(bounds, accumulate(series.counts), strict=True)]


_registry = CollectorRegistry(auto_describe=False)
_registry.register(FigureCollector(FIGURES))


def figure_page() -> bytes:
    """The histograms of this process in Prometheus' text format."""
    return generate_latest(_registry)
