"""Metrics by experiment, mode and arm, of the caller's tenant, with labels bounded in number.

The first `LABELLED_EXPERIMENTS` running experiments of a tenant and the first `LABELLED_ARMS` arms
of each have labels of their own, and keep them while the process runs. All others are added up
under the label `OTHER`: a counter must not move from one label to another.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from bothworlds.serve.domain.answers import Principal
from bothworlds.serve.domain.draws import UNIT
from bothworlds.serve.domain.experiment import Experiment
from bothworlds.serve.domain.service import Service

LABELLED_EXPERIMENTS = 100
LABELLED_ARMS = 20
OTHER = "(other)"
"""Label of values without an experiment; no experiment can have this name."""
_AT_ONCE = 8
"""Experiments that are read before decisions may have the event loop."""

Samples = defaultdict[tuple[str, ...], float]


class ExperimentMetrics:
    """Metrics of the experiments of a service."""

    def __init__(self) -> None:
        # Experiments with labels of their own, by tenant.
        self._labelled: dict[int, set[int]] = {}

    async def read(self, service: Service, who: Principal) -> Sequence[Metric]:
        """Return the metrics of the experiments of the caller's tenant."""
        made, learned, lost, shares, alarms = (Samples(float) for _ in range(5))
        labelled = self._labelled.setdefault(who.tenant, set())
        for count, experiment in enumerate(service.state.experiments.of_tenant(who.tenant)):
            if count % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            own = experiment.id in labelled
            if not own and experiment.mode != "archived" and len(labelled) < LABELLED_EXPERIMENTS:
                labelled.add(experiment.id)
                own = True
            label = experiment.name if own else OTHER
            for mode, place, number in experiment.made_by_mode():
                made[label, mode, _arm(experiment, place, own)] += number
            told, losses = experiment.own.told, experiment.own.lost
            for arm in experiment.arms:
                labels = label, _arm(experiment, arm.place, own)
                learned[labels] += int(told[arm.place])
                lost[labels] += int(losses[arm.place]) * UNIT
            if experiment.mode == "archived":
                continue
            mode = experiment.mode if own else OTHER
            alarms[label, mode] += len(experiment.alarms())
            if own and experiment.mode != "paused":
                for arm_name, share in experiment.probabilities().items():
                    arm_label = _arm(experiment, experiment.places[arm_name], own)
                    shares[label, mode, arm_label] += share
        return [*_families(made, learned, lost, shares, alarms)]


def _arm(experiment: Experiment, place: int, own: bool) -> str:
    return experiment.arms[place].name if own and place < LABELLED_ARMS else OTHER


def _families(
    made: Samples, learned: Samples, lost: Samples, shares: Samples, alarms: Samples
) -> Iterator[Metric]:
    by_mode, by_arm = ["experiment", "mode", "arm"], ["experiment", "arm"]
    counter, gauge = CounterMetricFamily, GaugeMetricFamily
    for kind, name, title, labels, samples in (
        (counter, "decisions", "Decisions since the start.", by_mode, made),
        (counter, "learned", "Feedback learned in this epoch.", by_arm, learned),
        (counter, "loss", "Sum of the losses learned, each in [0, 1].", by_arm, lost),
        (gauge, "probability", "Probability of the next decision.", by_mode, shares),
        (gauge, "alarms", "Alarms of the experiment.", by_mode[:2], alarms),
    ):
        family = kind(f"bothworlds_experiment_{name}", title, labels=labels)
        for values, number in samples.items():
            family.add_metric(values, number)
        yield family
