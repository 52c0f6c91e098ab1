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
    "infrastructure": Published(
        "part of infrastructure in failed jobs, and in their GPU time (Acme, Table 3)",
        "11 % and 82 %",
        "the quarter of Kalos with Meta's failure rate; errors of jobs are one kind, so framework "
        "and script are not distinguished; Table 3 is of a sample of jobs",
    ),
    "one_node": Published(
        "makespan of 63 evaluations on one node (Acme)", "1.3 times shorter", "all remedies"
    ),
    "four_nodes": Published(
        "makespan of 63 evaluations on four nodes (Acme)",
        "1.8 times shorter",
        "all remedies; the longest data set decides, so the interval is wide",
    ),
}

_NAMES = (
    "avg_run_time_gpu", "avg_que_time_gpu", "avg_gpu_num", "med_run_time_gpu", "med_que_time_gpu",
    "complete_rate_gpu", "cancel_rate_gpu", "fail_rate_gpu", "complete_rate_gpu_time",
    "cancel_rate_gpu_time", "fail_rate_gpu_time",
)  # fmt: skip
_ROWS = {
    "Seren": (1414.335, 445.984, 5.68, 122, 1, 0.497, 0.075, 0.429, 0.212, 0.664, 0.124),
    "Kalos": (1259.689, 214.179, 26.77, 124, 17, 0.541, 0.062, 0.397, 0.313, 0.607, 0.080),
    "Philly": (18006.055, 3760.604, 1.928, 874, 189, 0.604, 0.09, 0.305, 0.321, 0.294, 0.386),
    "Helios": (6651.681, 862.047, 3.716, 206, 0, 0.624, 0.221, 0.155, 0.513, 0.394, 0.093),
}
CLUSTERS = {name: dict(zip(_NAMES, row, strict=True)) for name, row in _ROWS.items()}
"""Rows of ``cluster_summary.csv`` of AcmeTrace (CC BY 4.0) that have all these columns."""
