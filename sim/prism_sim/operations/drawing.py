"""Draws the failures of one replication: the same for every policy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from prism_sim.draws import Draws
from prism_sim.operations.failures import Cause, Failure, draw_servers
from prism_sim.operations.study import Study
from prism_sim.operations.theory import SECONDS_A_DAY


def failures_of(study: Study, seed: int) -> list[Failure]:
    """The failures of the study's job, by time."""
    draws = Draws(seed)
    return _recorded(study, draws) if study.failures.outages else _drawn(study, draws)


def false_alarms_s(seed: int, number: float, days: float) -> npt.NDArray[np.float64]:
    """Times of false alarms, of which ``number`` are expected."""
    if number <= 0:
        return np.zeros(0)
    stream = Draws(seed).stream("false alarms")
    size = int(number + 10 * number**0.5 + 20)
    times_s = np.cumsum(stream.exponential(size=size)) * days * SECONDS_A_DAY / number
    return times_s[times_s < days * SECONDS_A_DAY]


def _drawn(study: Study, draws: Draws) -> list[Failure]:
    setting, ends_s = study.failures, study.days * SECONDS_A_DAY
    expected = int(ends_s / study.mttf_s)
    size = expected + 10 * int(expected**0.5) + 50
    between = setting.between.unit(draws.stream("time between failures"), size)
    while between.sum() * study.mttf_s < ends_s:
        size *= 2
        between = setting.between.unit(draws.stream("time between failures"), size)
    times_s = np.cumsum(between) * study.mttf_s
    size = int(np.searchsorted(times_s, ends_s))
    kinds = setting.kinds()
    counts = np.array([kind.count for kind in kinds], dtype=float)
    which = draws.stream("cause").choice(len(kinds), size, p=counts / counts.sum())
    servers, repeated = draw_servers(draws.stream("server"), study.servers, size, setting.offenders)
    repair_s = setting.repair.unit(draws.stream("repair"), size) * setting.repair_s
    luck = (draws.stream(name).random(size) for name in ("found", "located"))
    columns = (times_s[:size], which, servers, repair_s, *luck, repeated)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [Failure(at, kinds[kind], *rest) for at, kind, *rest in rows]


def _recorded(study: Study, draws: Draws) -> list[Failure]:
    """Failures of a trace: the job has some of its servers, and begins at some time of it."""
    trace, outages = study.failures.trace, study.failures.outages
    cluster = trace.servers if trace else study.servers
    names = sorted({outage.server for outage in outages})
    places = dict(zip(names, draws.stream("server").permutation(cluster).tolist(), strict=False))
    spare_days = max(outage.until_days for outage in outages) - study.days
    begin_days = draws.stream("begin").random() * spare_days
    found, located = (draws.stream(name).random(len(outages)) for name in ("found", "located"))
    failures = []
    for index, outage in enumerate(outages):
        at_days, server = outage.from_days - begin_days, places[outage.server]
        if 0 <= at_days < study.days and server < study.servers:
            cause = Cause(outage.cause, 1, outage.symptom, True)
            repair_s = (outage.until_days - outage.from_days) * SECONDS_A_DAY
            luck = float(found[index]), float(located[index])
            failures.append(Failure(at_days * SECONDS_A_DAY, cause, server, repair_s, *luck))
    return failures
