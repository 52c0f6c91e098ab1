"""Published figures of operations, and remarks on how ours compare."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A published figure: what it is, its value, and why ours may differ."""

    what: str
    value: str
    why: str


ACME_GPU_TIME = {
    "NVLink error": 30.25,
    "CUDA error": 15.77,
    "node failure": 14.30,
    "ECC error": 11.00,
    "network error": 4.53,
}
"""Acme's Table 3: percent of the GPU time of all failed jobs, of kinds that public notes quote."""

ACME_INFRASTRUCTURE = 82.0
"""Percent of the GPU time of all failed jobs, of all kinds of infrastructure."""

BY_NAME = {
    "ettr": Published(
        "ETTR of a job on 9,600 GPUs over three months (ByteRobust, arXiv 2509.16293)",
        "97 %",
        "175 incidents in 90 days, policy *and stack aggregation*; code changes, checks after "
        "restarts and failing standbys are not simulated",
    ),
    "standby": Published(
        "restart with warm standby, beside requeueing (ByteRobust)",
        "10.87 times faster",
        "our time to swap, 71 s, is derived from this figure, so the first value is a check; at "
        "eight failures a day with repairs of 0.7 days, a 99 % quantile of faults at one moment "
        "is too few servers",
    ),
    "hot": Published(
        "restart with hot update, beside requeueing (ByteRobust, Table 7)",
        "11.04 times faster",
        "the mean of the ratios of the four rows, which are inputs here: a check only",
    ),
    "every_step": Published(
        "time for a checkpoint at every step (ByteRobust)",
        "below 0.9 %",
        "0.04 s of steps of 10 s",
    ),
    "async": Published(
        "asynchronous beside synchronous checkpoints (Acme, NSDI'24)",
        "3.6 to 58.7 times faster",
        "a copy over PCIe (8 x 20 GB/s) beside a link of 25 Gbit/s a server: 51 times; both are "
        "assumptions, and the size of the model cancels",
    ),
    "meta": Published(
        "ETTR of runs on more than 1,024 GPUs (Meta, arXiv 2410.21680)",
        "about 90 %",
        "2,048 GPUs, checkpoints each hour; time in the queue is not simulated",
    ),
}
