"""The measurements of ``make benchmark``, one function for each subject.

A measurement takes a temporary folder and the :class:`Sizes` of its runs, and returns rows for
the table and figures for the JSON file. A missing peer is not an error: the row says what is
missing and how to install it.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import peer
import process
from process import FailedError, Usage, median

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
K, MIB = 1e3, 2**20

Figures = dict[str, Any]


class Row(NamedTuple):
    """One row of the table, as text."""

    subject: str
    measured: str
    compared: str = ""
    ratio: str = ""
    wanted: str = ""
    met: str = ""


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes
    ----------
    repeats : runs of each measurement; ``short_repeats`` of those that take seconds.
    job_s, short_s : cluster time of the job, and of the run whose memory it is compared with [s].
    growth_s : cluster time of 256 GPUs and of 16,384 GPUs, about as many records each [s].
    scale : number of GPUs and cluster time [s] of the largest job.
    iterations, short_iterations : of the job that writes logs, as for the job.
    """

    repeats: int = 1
    short_repeats: int = 3
    job_s: float = 120
    short_s: float = 30
    growth_s: tuple[float, float] = (220, 5)
    scale: tuple[int, float] = (100_032, 10)
    iterations: int = 6_000
    short_iterations: int = 600


QUICK = Sizes(short_repeats=1, job_s=12, short_s=6, iterations=600, short_iterations=200)
"""About a minute in all without ``growth``, to see that nothing has become much slower."""

Measurement = Callable[[Path, Sizes], tuple[list[Row], Figures]]


class _Rates(NamedTuple):
    """Flows per second here and in SimGrid, and the largest relative difference of an end."""

    ours: float
    simgrid: float | None
    deviation: float | None

    @property
    def ratio(self) -> float | None:
        return None if self.simgrid is None else self.ours / self.simgrid


def ring(folder: Path, sizes: Sizes) -> tuple[list[Row], Figures]:
    """Measure the strided rings of 1,024 GPUs, flow by flow, here and in SimGrid."""
    spreads = {"equal": 0.0, "varied": 0.2}
    found = {name: _ring(folder, one, sizes.short_repeats) for name, one in spreads.items()}
    ratios = [rates.ratio for rates in found.values() if rates.ratio is not None]
    deviations = [rates.deviation for rates in found.values() if rates.deviation is not None]
    figures: Figures = {
        "ring_rate_vs_simgrid": min(ratios, default=None),
        "ring_deviation_max": max(deviations, default=None),
    }
    rows: list[Row] = []
    for name, rates in found.items():
        figures[f"ring_rate_vs_simgrid_{name}"] = rates.ratio
        figures[f"ring_rate_{name}"] = rates.ours
        figures[f"ring_rate_simgrid_{name}"] = rates.simgrid
        figures[f"ring_deviation_{name}"] = rates.deviation
        rows += _ring_rows(name, rates)
    return rows, figures


def _ring(folder: Path, spread: float, repeats: int) -> _Rates:
    flow_set, our_answer, answer = (folder / name for name in ("flows", "ours", "simgrid"))
    script = [sys.executable, str(HERE / "ring.py"), str(spread)]
    missing = _missing_peer()
    if not missing:
        process.run([*script, str(flow_set), str(our_answer)])
    ours, simgrid = [], []
    for _ in range(repeats):
        result = json.loads(process.run(script).output)
        ours.append(result["flows"] / result["seconds"])
        if not missing:
            timing = peer.run(flow_set, answer)
            simgrid.append(timing.flows / timing.seconds)
    if missing:
        return _Rates(median(ours), None, None)
    return _Rates(median(ours), median(simgrid), _deviation(our_answer, answer))


def _missing_peer() -> bool:
    try:
        peer.build()
    except peer.NoPeerError as error:
        process.report(str(error))
        return True
    return False


def _deviation(ours: Path, theirs: Path) -> float:
    with ours.open() as a, theirs.open() as b:
        pairs = [(float(x), float(y)) for x, y in zip(a, b, strict=True)]
    return max(abs(x - y) / y for x, y in pairs)


def _ring_rows(name: str, rates: _Rates) -> list[Row]:
    subject = f"260,096 flows in 8 rings, {name} sizes"
    rate = f"{rates.ours / K:,.0f} k flows/s"
    if rates.simgrid is None or rates.ratio is None or rates.deviation is None:
        return [Row(subject, rate, peer.HOW, "", ">= 1, aim 3", "?")]
    simgrid = f"SimGrid {rates.simgrid / K:,.0f} k flows/s"
    deviation = f"{rates.deviation:.1e}"
    return [
        Row(subject, rate, simgrid, f"{rates.ratio:.2f}", ">= 1, aim 3", _met(rates.ratio >= 1)),
        Row("  largest deviation of an end", "", "SimGrid's ends", deviation, "< 1e-3",
            _met(rates.deviation < 1e-3)),
    ]  # fmt: skip


def job(folder: Path, sizes: Sizes) -> tuple[list[Row], Figures]:
    """Measure a training job on 1,024 GPUs for a while of cluster time."""
    runs = [_train(folder / "job", 1024, sizes.job_s) for _ in range(sizes.repeats)]
    short = [_train(folder / "short", 1024, sizes.short_s) for _ in range(sizes.repeats)]
    records, seconds, peak = _records(runs[0]), _seconds(runs), _peak(runs)
    less, growth = _compared(
        f"  ... compared with {sizes.short_s:g} s of cluster time", runs, short
    )
    figures = {
        "job_records": records,
        "job_seconds": seconds,
        "job_seconds_each": [round(run.seconds, 2) for run in runs],
        "job_records_per_s": records / seconds,
        "job_records_per_cpu_s": records / _cpu_seconds(runs),
        "job_peak_rss_bytes": peak,
        "job_memory_ratio_vs_short": growth,
    }
    rows = [
        Row(f"job, 1,024 GPUs, {sizes.job_s:g} s of cluster time",
            f"{records / seconds / K:,.0f} k records/s", f"{records / 1e6:.1f} M records", "",
            ">= 300 k", _met(records / seconds >= 300e3)),
        Row("  its peak memory", f"{peak / MIB:,.0f} MiB", "", "", "< 2,048 MiB",
            _met(peak < 2**31)),
        less,
    ]  # fmt: skip
    return rows, figures


def growth(folder: Path, sizes: Sizes) -> tuple[list[Row], Figures]:
    """Measure the same job on 16,384 and on 256 GPUs, over about the same number of records."""
    small, large = [], []
    for _ in range(sizes.repeats):
        small.append(_train(folder / "small", 256, sizes.growth_s[0]))
        large.append(_train(folder / "large", 16_384, sizes.growth_s[1]))
    figures: Figures = {}
    for name, runs in (("256", small), ("16384", large)):
        figures[f"growth_records_{name}"] = _records(runs[0])
        cpu_s = _cpu_seconds(runs)
        figures[f"growth_cpu_s_per_record_{name}"] = cpu_s / _records(runs[0])
        figures[f"growth_bytes_per_record_{name}"] = _peak(runs) / _records(runs[0])
    rows = []
    for kind, key, unit, scale in (
        ("CPU time", "growth_cpu_s_per_record", "us", 1e6),
        ("memory", "growth_bytes_per_record", "bytes", 1.0),
    ):
        at_256, at_16384 = figures[f"{key}_256"], figures[f"{key}_16384"]
        ratio = figures[f"growth_{kind.lower().replace(' ', '_')}_ratio"] = at_16384 / at_256
        rows.append(
            Row(f"{kind} per record at 16,384 GPUs", f"{at_16384 * scale:,.1f} {unit}",
                f"256 GPUs: {at_256 * scale:,.1f} {unit}", f"{ratio:.2f}", "<= 1.5",
                _met(ratio <= 1.5))
        )  # fmt: skip
    return rows, figures


PANDAS = [sys.executable, "-c", "import pandas"]
"""The peer of start-up: every program here needs it, and its CPU time is that of the machine."""


def startup(folder: Path, sizes: Sizes) -> tuple[list[Row], Figures]:
    """Measure ``--help`` and a tiny scenario, with full and with empty compile caches."""
    tiny = [str(BIN / "prism-sim"), "simulate", "tiny/pair", "--quiet"]
    tiny += ["--out", str(folder / "tiny")]
    process.run(tiny)  # fills the caches
    runs, peers = _in_turn(tiny, sizes.short_repeats)
    cold = process.run(tiny, {"NUMBA_CACHE_DIR": str(folder / "cache")})
    rows = [_beside_pandas("start-up: tiny/pair simulated", runs, peers, 4.5)]
    rows.append(_beside_pandas("  the first run, compile caches empty", [cold], peers, 50))
    for program in ("prism-sim", "llmprism", "llmlog"):
        command = [str(BIN / program), "--help"]
        rows.append(_beside_pandas(f"  {program} --help", *_in_turn(command, 3), 0.35))
    figures = {"startup_s": _seconds(runs), "startup_cpu_s": _cpu_seconds(runs)}
    return rows, {**figures, "startup_first_s": cold.seconds}


def clone(folder: Path, _sizes: Sizes) -> tuple[list[Row], Figures]:
    """Measure the first command of a newcomer, from a clone to a report; libraries may be kept."""
    process.run(["git", "clone", "--quiet", str(HERE.parent), str(folder / "clone")])
    runs, peers = _in_turn(["make", "-C", str(folder / "clone"), "quickstart"], 1)
    row = _beside_pandas("from a clone to a report", runs, peers, 120)
    return [row], {"clone_s": _seconds(runs), "clone_cpu_s": _cpu_seconds(runs)}


def _in_turn(command: list[str], times: int) -> tuple[list[Usage], list[Usage]]:
    """Runs of a command, and of the peer of start-up in turn with them."""
    both = [(process.run(command), process.run(PANDAS)) for _ in range(times)]
    return [ours for ours, _ in both], [theirs for _, theirs in both]


def _beside_pandas(subject: str, runs: list[Usage], peers: list[Usage], most: float) -> Row:
    """CPU time in imports of pandas; more than ``most`` of them fail the benchmark."""
    cpu_s, peer_s = _cpu_seconds(runs), _cpu_seconds(peers)
    return Row(subject, f"{cpu_s:.2f} s of a core", f"import pandas: {peer_s:.2f} s",
               f"{cpu_s / peer_s:.2f}", f"<= {most:g}", _met(cpu_s <= most * peer_s))  # fmt: skip


def diagnose(folder: Path, sizes: Sizes) -> tuple[list[Row], Figures]:
    """Measure each method on the flows of the training job, in turn with DuckDB."""
    run = folder / "job"
    if not run.exists():
        _train(run, 1024, sizes.job_s)
    grouped = [sys.executable, str(HERE / "grouping.py"), str(run / "flows.parquet")]
    usages: dict[str, list[Usage]] = {name: [] for name in (*SUFFIXES, "duckdb")}
    try:
        for _ in range(sizes.repeats):
            for method in SUFFIXES:
                usages[method].append(process.run(_diagnosis(run, method)))
            usages["duckdb"] += [process.run(grouped) for _ in range(sizes.short_repeats)]
    except FailedError as error:
        process.report(str(error))
        return [Row("diagnosis of the job's flows", "failed, see above", met="no")], {}
    records, duckdb = _manifest(run)["records"], usages["duckdb"]
    duckdb_s, duckdb_cpu_s = _seconds(duckdb), _cpu_seconds(duckdb)
    rows: list[Row] = []
    figures: Figures = {
        "diagnose_rows": records,
        "diagnose_duckdb_s": duckdb_s,
        "diagnose_duckdb_cpu_s": duckdb_cpu_s,
    }
    for method, suffix in SUFFIXES.items():
        seconds, peak = _seconds(usages[method]), _peak(usages[method])
        figures[f"diagnose_rows_per_s{suffix}"] = records / seconds
        cpu_s = _cpu_seconds(usages[method])
        figures[f"diagnose_rows_per_cpu_s{suffix}"] = records / cpu_s
        figures[f"diagnose_cpu_time_vs_duckdb{suffix}"] = cpu_s / duckdb_cpu_s
        figures[f"diagnose_peak_rss_bytes{suffix}"] = peak
        figures[f"diagnose_time_vs_duckdb{suffix}"] = seconds / duckdb_s
        rows += _diagnosis_rows(method, records, seconds, peak, duckdb_s)
        rows.append(
            Row("  its CPU time", f"{cpu_s:.1f} s", f"DuckDB {duckdb_cpu_s:.2f} s",
                f"{cpu_s / duckdb_cpu_s:.0f}")
        )  # fmt: skip
    return rows, figures


SUFFIXES = {"prism": "", "paper": "_paper"}
"""Suffix of the figures of each method."""


def _diagnosis(run: Path, method: str) -> list[str]:
    """The command that diagnoses the flows of ``run``."""
    command = [str(BIN / "llmprism"), str(run / "flows.parquet"), "--quiet", "--method", method]
    return [*command, "--topology", str(run / "topology.json"), "--out", str(run / "diagnosis")]


def _diagnosis_rows(
    method: str, records: int, seconds: float, peak: float, duckdb_s: float
) -> list[Row]:
    millions = records / 1e6
    return [
        Row(f"diagnosis of the job's flows, {method}", f"{records / seconds / K:,.0f} k records/s",
            f"{millions:.1f} M records", "", ">= 167 k", _met(records / seconds >= 10e6 / 60)),
        Row("  its time", f"{seconds:.1f} s", f"DuckDB {duckdb_s:.2f} s",
            f"{seconds / duckdb_s:.0f}"),
        Row("  its peak memory", f"{peak / MIB:,.0f} MiB", "",
            f"{peak / records:.0f} bytes/record", "< 2 GiB for 10 M",
            _met(peak < 2**31 * max(1.0, records / 10e6))),
    ]  # fmt: skip


def logs(folder: Path, sizes: Sizes) -> tuple[list[Row], Figures]:
    """Measure the logs of one job on 32 GPUs, with a line for each collective call of each rank."""
    runs = [_logs(folder / "logs", sizes.iterations) for _ in range(sizes.repeats)]
    short = [_logs(folder / "short-logs", sizes.short_iterations) for _ in range(sizes.repeats)]
    size_bytes = int(json.loads(runs[0].output)["bytes"])
    rows, figures = _by_bytes("logs of a job, compressed", "logs", size_bytes, runs, short, 50)
    return rows, {"logs_bytes": size_bytes, **figures}


def _by_bytes(
    subject: str, name: str, size_bytes: int, runs: list[Usage], short: list[Usage], least_mb: int
) -> tuple[list[Row], Figures]:
    """The rate of work on so many bytes, and its memory beside that of fewer iterations."""
    rate = size_bytes / _cpu_seconds(runs)
    less, growth = _compared("  peak memory, compared with fewer iterations", runs, short)
    figures = {
        f"{name}_bytes_per_cpu_s": rate,
        f"{name}_peak_rss_bytes": _peak(runs),
        f"{name}_memory_ratio_vs_short": growth,
    }
    row = Row(subject, f"{rate / 1e6:,.0f} MB/s of a core", f"{size_bytes / 1e6:,.0f} MB", "",
              f">= {least_mb} MB/s", _met(rate >= least_mb * 1e6))  # fmt: skip
    return [row, less], figures


def _logs(folder: Path, iterations: int) -> Usage:
    """Write the logs of one failed job into ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    changes = {
        "failures": 1, "successes": 0, "min_nodes": 4, "max_nodes": 4, "calls": 32,
        "kinds": "[gpu_lost]", "nccl_debug": "coll", "layout": "node", "iterations": iterations,
    }  # fmt: skip
    command = [str(BIN / "prism-sim"), "logs", "logs/demo", "--json", "--quiet"]
    for key, value in changes.items():
        command += ["--set", f"logs.{key}={value}"]
    return process.run([*command, "--out", str(folder)])


def llmlog(folder: Path, sizes: Sizes) -> tuple[list[Row], Figures]:
    """Measure the diagnosis of logs with a line for each collective call of each rank."""
    found = {}
    for name, iterations in (("long", sizes.iterations), ("short", sizes.short_iterations)):
        written = _logs(folder / f"llmlog-{name}", iterations)
        command = [str(BIN / "llmlog"), str(folder / f"llmlog-{name}/logs")]
        runs = [process.run(command) for _ in range(sizes.repeats)]
        found[name] = int(json.loads(written.output)["bytes"]), runs
    size_bytes, runs = found["long"]
    return _by_bytes("diagnosis of logs", "llmlog", size_bytes, runs, found["short"][1], 17)


MEASUREMENTS: dict[str, Measurement] = {
    "ring": ring,
    "job": job,
    "growth": growth,
    "startup": startup,
    "clone": clone,
    "diagnose": diagnose,
    "logs": logs,
    "llmlog": llmlog,
}

ONLY_WHOLE = ("growth", "clone")
"""Not made with small sizes: start-up would be most of the records, and a clone has one size."""


def beside_simgrid(figures: Figures) -> tuple[list[Row], Figures]:
    """Records that a job makes while SimGrid ends a flow, of runs on the same machine."""
    theirs, ours = figures.get("ring_rate_simgrid_varied"), figures.get("job_records_per_cpu_s")
    if theirs is None or ours is None:
        return [], {}
    ratio = ours / theirs
    row = Row("records of the job for each flow in SimGrid", f"{ours / K:,.0f} k records/s",
              f"SimGrid {theirs / K:,.0f} k flows/s", f"{ratio:.2f}")  # fmt: skip
    return [row], {"job_records_per_simgrid_flow": ratio}


LARGE_SECONDS = 3300


def large(folder: Path, sizes: Sizes) -> tuple[list[Row], Figures]:
    """Measure a diagnosis of more records than fit in memory: the same job for 55 minutes."""
    run = folder / "large"
    _train(run, 1024, LARGE_SECONDS)
    usages = [process.run(_diagnosis(run, "prism")) for _ in range(sizes.repeats)]
    records, seconds, peak = _manifest(run)["records"], _seconds(usages), _peak(usages)
    figures = {
        "diagnose_large_rows": records,
        "diagnose_large_rows_per_s": records / seconds,
        "diagnose_large_peak_rss_bytes": peak,
    }
    return [
        Row("diagnosis in windows of time", f"{records / seconds / K:,.0f} k records/s",
            f"{records / 1e6:.1f} M records"),
        Row("  its peak memory", f"{peak / MIB:,.0f} MiB", "", f"{peak / records:.0f} bytes/record",
            "< 4 GiB", _met(peak < 2**32)),
    ], figures  # fmt: skip


def scale(folder: Path, sizes: Sizes) -> tuple[list[Row], Figures]:
    """Measure the same job on 100,032 GPUs for ten seconds of cluster time."""
    gpus, seconds = sizes.scale
    run = _train(folder / "scale", gpus, seconds)
    records, peak = _records(run), run.peak_bytes
    rate = records / run.cpu_seconds
    figures = {
        "scale_records": records,
        "scale_records_per_cpu_s": rate,
        "scale_peak_rss_bytes": peak,
    }
    return [
        Row(f"job, {gpus:,} GPUs, {seconds:g} s of cluster time",
            f"{rate / K:,.0f} k records/CPU s", f"{records / 1e6:.1f} M records"),
        Row("  its peak memory", f"{peak / MIB:,.0f} MiB", "",
            f"{peak / gpus / K:.0f} kB/GPU", "< 8 GiB", _met(peak < 2**33)),
    ], figures  # fmt: skip


LONG_MEASUREMENTS: dict[str, Measurement] = {"large": large, "scale": scale}
"""Only made if they are named."""


def _train(folder: Path, gpus: int, seconds: float) -> Usage:
    """Simulate ``job.yaml`` into ``folder``, with as many replicas as ``gpus`` GPUs need."""
    shutil.rmtree(folder, ignore_errors=True)
    changes = {"cluster.servers": gpus // 8, "jobs.0.dp": gpus // 64, "duration_s": seconds}
    command = [str(BIN / "prism-sim"), "simulate", str(HERE / "job.yaml"), "--json", "--quiet"]
    for path, value in changes.items():
        command += ["--set", f"{path}={value}"]
    return process.run([*command, "--out", str(folder)])


def _records(run: Usage) -> int:
    return int(json.loads(run.output)["records"])


def _manifest(run: Path) -> Figures:
    content: Figures = json.loads((run / "manifest.json").read_text())
    return content


def _seconds(runs: list[Usage]) -> float:
    return median([run.seconds for run in runs])


def _cpu_seconds(runs: list[Usage]) -> float:
    return median([run.cpu_seconds for run in runs])


def _peak(runs: list[Usage]) -> float:
    return median([run.peak_bytes for run in runs])


def _compared(subject: str, runs: list[Usage], short: list[Usage]) -> tuple[Row, float]:
    """Peak memory beside that of shorter runs, and their ratio."""
    peak, less = _peak(runs), _peak(short)
    ratio = peak / less
    row = Row(subject, f"{peak / MIB:,.0f} MiB", f"{less / MIB:,.0f} MiB", f"{ratio:.2f}", "<= 1.1",
              _met(ratio <= 1.1))  # fmt: skip
    return row, ratio


def _met(holds: bool) -> str:
    return "yes" if holds else "no"
