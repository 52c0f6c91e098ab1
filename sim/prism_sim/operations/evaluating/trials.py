"""Trials and their phases, drawn once for all schedulers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from prism_sim.draws import Draws
from prism_sim.operations.evaluating.study import Evaluation


@dataclass(frozen=True)
class Trial:
    """One data set, or a part of it; ``prior_s`` is its inference time as expected beforehand."""

    preprocess_s: float
    inference_s: float
    metric_s: float
    prior_s: float


def trials_of(study: Evaluation, seed: int) -> list[Trial]:
    """The trials of all data sets."""
    draws, size = Draws(seed), study.datasets
    lengths = study.spread.unit(draws.stream("inference"), size)
    metrics = study.spread.unit(draws.stream("metric"), size) * study.metric_s
    errors = np.exp(study.prior_error * draws.stream("prior").normal(size=size))
    inference_s = lengths * study.inference_s
    columns = zip(inference_s.tolist(), metrics.tolist(), errors.tolist(), strict=True)
    return [
        Trial(study.preprocess_s, took, metric, took * wrong) for took, metric, wrong in columns
    ]


def packed(trials: list[Trial], part_s: float) -> list[Trial]:
    """The trials in parts of at most ``part_s`` of prior length, the longest first."""
    parts = []
    for trial in trials:
        number = max(1, ceil(trial.prior_s / part_s))
        part = replace(
            trial,
            preprocess_s=trial.preprocess_s / number,
            inference_s=trial.inference_s / number,
            metric_s=trial.metric_s / number,
            prior_s=trial.prior_s / number,
        )
        parts += [part] * number
    return sorted(parts, key=lambda part: -part.prior_s)
