"""Draws the failures of one replication: the same for every policy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from prism_sim.draws import Draws
from prism_sim.operations.failure import Failure
from prism_sim.operations.study import Study
from prism_sim.operations.theory import SECONDS_A_DAY


def failures_of(study: Study, seed: int) -> list[Failure]:
    """The failures of the study's job, by time."""
    draws, setting = Draws(seed), study.failures
    ends_s = study.days * SECONDS_A_DAY
    expected = int(ends_s / study.mttf_s)
    size = expected + 10 * int(expected**0.5) + 50
    between = setting.between.unit(draws.stream("time between failures"), size)
    while between.sum() * study.mttf_s < ends_s:
        size *= 2
        between = setting.between.unit(draws.stream("time between failures"), size)
    times_s = np.cumsum(between) * study.mttf_s
    number = int(np.searchsorted(times_s, ends_s))
    return _failures(study, draws, times_s[:number])


def false_alarms_s(seed: int, number: float, days: float) -> npt.NDArray[np.float64]:
    """Times of false alarms, of which ``number`` are expected."""
    if number <= 0:
        return np.zeros(0)
    stream = Draws(seed).stream("false alarms")
    size = int(number + 10 * number**0.5 + 20)
    times_s = np.cumsum(stream.exponential(size=size)) * days * SECONDS_A_DAY / number
    return times_s[times_s < days * SECONDS_A_DAY]


def _failures(study: Study, draws: Draws, times_s: npt.NDArray[np.float64]) -> list[Failure]:
    setting, size = study.failures, len(times_s)
    kinds = setting.kinds()
    counts = np.array([kind.count for kind in kinds], dtype=float)
    which = draws.stream("cause").choice(len(kinds), size, p=counts / counts.sum())
    servers = draws.stream("server").integers(study.servers, size=size)
    repair_s = setting.repair.unit(draws.stream("repair"), size) * setting.repair_s
    found = draws.stream("found").random(size)
    located = draws.stream("located").random(size)
    columns = (times_s, which, servers, repair_s, found, located)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [Failure(at, kinds[k], server, *rest) for at, k, server, *rest in rows]
