"""Figures of requests as a Prometheus server reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from core.observability.figure_page import FigureCollector
from core.observability.request_figures import BOUNDS_MS, CLAIMED, FIGURES, RequestFigures
from core.observability.telemetry import prometheus_page


def samples(figures: RequestFigures) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The page's values, by name and labels."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(FigureCollector(figures))
    page = generate_latest(registry).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


@given(st.lists(st.integers(0, 40_000), min_size=1))
def test_buckets_are_cumulative_and_in_seconds(gaps_ms: list[int]):
    """Each holds what is at most its bound; the last holds all, and the sum is theirs."""
    figures = RequestFigures()
    for ms in gaps_ms:
        figures.series("between_tokens", "bulk").observe(ms)
    read, name, of = samples(figures), "parley_between_tokens_seconds", ("class", "bulk")
    for bound in BOUNDS_MS["between_tokens"]:
        labels = frozenset({of, ("le", str(float(bound / 1000)))})
        assert read[f"{name}_bucket", labels] == sum(ms <= bound for ms in gaps_ms)
    assert read[f"{name}_bucket", frozenset({of, ("le", "+Inf")})] == len(gaps_ms)
    assert read[f"{name}_count", frozenset({of})] == len(gaps_ms)
    assert read[f"{name}_sum", frozenset({of})] == pytest.approx(sum(gaps_ms) / 1000)


def test_what_has_ended_is_shown_by_outcome():
    """Waits and durations; all else by class alone, as how a request will end is not known before."""
    figures = RequestFigures()
    figures.ended("standard", "engine_lost", 1_500)
    figures.series("first_token", "standard").observe(70)
    read = samples(figures)
    of = ("class", "standard")
    assert read["parley_request_seconds_sum", frozenset({of, ("outcome", "engine_lost")})] == 1.5
    assert read["parley_first_token_seconds_count", frozenset({of})] == 1


def test_a_process_shows_its_own():
    """Beside what OpenTelemetry counts."""
    FIGURES.series("queue_wait", "bulk", CLAIMED).observe(10)
    assert b'parley_queue_wait_seconds_count{class="bulk",outcome="claimed"}' in prometheus_page()
