"""Closed forms that the simulation is compared with.

ETTR is the effective training time ratio: work that was kept, divided by wall-clock time.
All durations are in seconds.
"""

from __future__ import annotations

from math import comb, exp, sqrt

SECONDS_A_DAY = 86_400.0


def mttf_s(servers: int, per_server_day: float) -> float:
    """Mean time between failures of a job, from failures a server and day."""
    return SECONDS_A_DAY / (servers * per_server_day)


def ettr(work_s: float, stall_s: float, restart_s: float, mttf_s: float) -> float:
    """The exact ETTR if failures are exponential, also while the job saves or restarts.

    Source: J. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps,
    Future Generation Computer Systems 22 (2006).
    """
    saved = exp((work_s + stall_s) / mttf_s) - 1
    return work_s / mttf_s * exp(-restart_s / mttf_s) / saved


def approximate_ettr(work_s: float, stall_s: float, restart_s: float, mttf_s: float) -> float:
    """Meta's approximation (arXiv 2410.21680): holds if lost time is a small part of the MTTF."""
    return (1 - (restart_s + work_s / 2) / mttf_s) / (1 + stall_s / work_s)


def young_s(stall_s: float, mttf_s: float) -> float:
    """Young's optimum of the work between two checkpoints."""
    return sqrt(2 * stall_s * mttf_s)


def daly_s(stall_s: float, mttf_s: float) -> float:
    """Daly's optimum of higher order; the MTTF itself if a checkpoint takes two of them."""
    if stall_s >= 2 * mttf_s:
        return mttf_s
    part = stall_s / (2 * mttf_s)
    return young_s(stall_s, mttf_s) * (1 + sqrt(part) / 3 + part / 9) - stall_s


def standby_size(servers: int, faulty: float, quantile: float) -> int:
    """The smallest number of standby servers that suffices with probability ``quantile``.

    ``faulty`` is the probability that one of the ``servers`` needs replacement at a failure, as in
    ByteRobust (arXiv 2509.16293).
    """
    below = 0.0
    for number in range(servers + 1):
        below += comb(servers, number) * faulty**number * (1 - faulty) ** (servers - number)
        if below >= quantile:
            return number
    return servers
