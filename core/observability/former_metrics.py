"""Metrics and labels that had another name one version ago stand on the page under both. Nothing is counted
twice for it: the page is written from one reading."""

from collections.abc import Iterable, Mapping

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from core.observability.former_words import LABELS, METRICS


class FormerNames(Collector):
    """What another collector shows, under former names too."""

    def __init__(self, shown: Collector) -> None:
        self._shown = shown

    def collect(self) -> Iterable[Metric]:
        """Each family, and behind one that was renamed its copy under the former name."""
        for family in self._shown.collect():
            labels = LABELS.get(family.name, {})
            if former := METRICS.get(family.name):
                yield family
                yield _copy(
                    family, former, [_as_before(each, family.name, labels) for each in family.samples]
                )
            elif labels:
                yield _copy(family, family.name, [_with_both(each, labels) for each in family.samples])
            else:
                yield family


def _as_before(sample: Sample, name: str, labels: Mapping[str, str]) -> Sample:
    before = {labels.get(label, label): value for label, value in sample.labels.items()}
    return sample._replace(name=METRICS[name] + sample.name.removeprefix(name), labels=before)


def _with_both(sample: Sample, labels: Mapping[str, str]) -> Sample:
    before = {labels[label]: value for label, value in sample.labels.items() if label in labels}
    return sample._replace(labels={**sample.labels, **before})


def _copy(family: Metric, name: str, samples: list[Sample]) -> Metric:
    copied = Metric(name, family.documentation, family.type)
    copied.samples = samples
    return copied
