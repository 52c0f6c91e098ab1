"""What flow records and counters show of a gray link in a fabric that spreads messages."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from llmprism.pipeline import diagnose
from prism_sim.loading.scenario import Scenario
from prism_sim.render.markdown import table
from prism_sim.simulate import simulated

SPINES, SERVERS = 64, 32
BEFORE, STEPS = 6, 12
PACKET = 4096
LOSSES = (0.001, 0.005, 0.015, 0.05)
FALSE_ALARMS = 0.01
"""Iterations with a false alarm, over all spines."""
POWER = 0.99
DRAWS = 2_000
SURE = 0.9
LLAMA_3_70B = {
    "layers": 80, "hidden": 8192, "heads": 64, "kv_heads": 8, "ffn_hidden": 28_672,
    "gated_ffn": True, "vocab": 128_256, "sequence_length": 8192,
}  # fmt: skip
SMALL = {"layers": 8, "hidden": 1024, "heads": 8, "vocab": 32_000, "sequence_length": 1024}


LAYOUTS: dict[str, dict[str, Any]] = {
    "pipelines": {"dp": 8, "pp": 4, "tp": 8, "micro_batches": 8},
    "fully sharded": {"dp": 32, "tp": 8, "micro_batches": 1, "zero_stage": 3},
}
"""Tensor and pipeline parallelism with replicas, and fully sharded replicas."""


class Seen(NamedTuple):
    """What records of one job show of a gray link.

    Attributes
    ----------
    slower, step : by how much transfers that leave the leaf, and steps, take longer.
    answer : culprit of the first finding, with its confidence.
    """

    slower: float
    step: float
    answer: str


def gray_links() -> dict[str, str]:
    """Set flow records and counters of a sprayed job beside the published figures of SprayCheck."""
    rows = []
    for transport in ("go_back_n", "selective_repeat"):
        for loss in LOSSES:
            seen = _seen(loss, transport)
            rows.append([transport.replace("_", "-"), f"{loss:.1%}", f"{seen.slower:+.2%}",
                         f"{seen.step:+.2%}", seen.answer])  # fmt: skip
    shown = table(["transport", "loss", "transfers", "steps", "flow records alone say"], rows)
    packets = {name: _packets(layout) for name, layout in LAYOUTS.items()}
    found = [
        [name, f"{count:,.0f}", f"{loss:.1%}", f"{_needed(loss, count):,}", *_drawn(loss, count)]
        for name, count in packets.items()
        for loss in LOSSES
    ]
    head = ["layout", "packets", "loss", "iterations", "found in one", "in five", "false alarms"]
    return {
        "seen": shown, "found": table(head, found, numbers_right=True), "wrong": _wrong_links(),
    }  # fmt: skip


def _seen(loss: float, transport: str) -> Seen:
    fault = {"kind": "lossy_link", "a": "leaf000", "b": "spine07", "probability": loss,
             "transport": transport, "job": "a", "from_step": BEFORE}  # fmt: skip
    values = _world(LAYOUTS["pipelines"], STEPS, [fault])
    with simulated(Scenario.model_validate(values)) as run:
        flows, steps = pd.read_parquet(run.flows), run.truth("steps")
        begun_ns = int(run.truth("faults")["start_ns"].iloc[0])
        findings = diagnose(run.flows, run.topology).findings
    own = flows[flows["path"].astype(str).str.startswith("leaf000|")]
    own = own.assign(late=own["start_ns"] >= begun_ns, lasts=own["end_ns"] - own["start_ns"])
    usual = own.groupby(["bytes", "late"])["lasts"].median().unstack().dropna()
    weight = own.groupby("bytes")["lasts"].sum().reindex(usual.index)
    slower = float(np.average(usual[True] / usual[False] - 1, weights=weight))
    ends = steps.groupby("step")["end_ns"].max().diff().dropna()
    step = float(ends.loc[BEFORE + 1 :].median() / ends.loc[1 : BEFORE - 1].median() - 1)
    return Seen(slower, step, _answer(findings))


def _packets(layout: dict[str, Any]) -> float:
    """Packets on each uplink of the first leaf in one iteration."""
    steps = 2
    with simulated(Scenario.model_validate(_world(layout, steps, []))) as run:
        flows = pd.read_parquet(run.flows)
    own = flows[flows["path"].astype(str).str.startswith("leaf000|")]
    return float(own["bytes"].sum() / steps / SPINES / PACKET)


def _world(layout: dict[str, Any], steps: int, faults: list[dict[str, Any]]) -> dict[str, Any]:
    """The job on 256 GPUs, four leaves and 64 spines."""
    fabric = {"kind": "tor", "leaf_ports": 64, "uplinks": 64, "spines": SPINES,
              "routing": "adaptive"}  # fmt: skip
    job = {"name": "a", "model": LLAMA_3_70B, "steps": steps, "compute_jitter": 0.005, **layout}
    cluster = {"servers": SERVERS, "fabric": fabric}
    return {"name": "gray", "cluster": cluster, "jobs": [job], "faults": faults}


def _answer(findings: pd.DataFrame) -> str:
    if findings.empty:
        return "nothing"
    first = findings.sort_values("confidence", ascending=False).iloc[0]
    return f"{first['culprit_kind']} {first['culprit']} ({first['confidence']:.2f})"


def _bound() -> float:
    return NormalDist().inv_cdf(1 - FALSE_ALARMS / SPINES)


def _needed(loss: float, packets: float) -> int:
    """Iterations after which the deficit of a link that loses packets is beyond chance."""
    return max(1, math.ceil(((_bound() + NormalDist().inv_cdf(POWER)) / loss) ** 2 / packets))


def _drawn(loss: float, packets: float) -> list[str]:
    """Share of drawn iterations in which the link is found, of five together, and of alarms."""
    random, shares = np.random.default_rng(0), []
    for iterations in (1, 5):
        sent = round(packets * iterations)
        counts = random.multinomial(sent * SPINES, np.full(SPINES, 1 / SPINES), DRAWS)
        others = counts[:, 1:]
        own = random.binomial(counts[:, 0], 1 - loss)
        limit = sent - _bound() * math.sqrt(sent)
        shares.append(f"{(own < limit).mean():.1%}")
        alarms = (others < limit).any(axis=1).mean()
    return [*shares, f"{alarms:.1%}"]


def _wrong_links() -> str:
    """Diagnose small worlds with a gray or a slow link between switches."""
    counts: dict[str, list[int]] = {}
    for routing in ("ecmp", "spray", "adaptive", "adaptive, per message", "flowlet"):
        kind, _, per = routing.partition(", per ")
        options: Any = {"kind": kind, "per": per} if per else kind
        for seed in range(4):
            for fault in ({"kind": "slow_link", "factor": 0.15},
                          {"kind": "lossy_link", "probability": 0.05}):  # fmt: skip
                found = _small(options, fault, seed)
                links = found[found["culprit_kind"] == "link"]
                named = "leaf000|spine01"
                row = counts.setdefault(routing, [0] * 5)
                row[0] += 1
                row[1] += int((links["culprit"] == named).any())
                row[2] += int((found["culprit"] == "leaf000").any())
                row[3] += int((links["culprit"] != named).any())
                sure = found[found["confidence"] >= SURE]
                row[4] += int(((sure["culprit_kind"] == "link") & (sure["culprit"] != named)).any())
    head = ["routing", "worlds", "the link", "its leaf", "another link", "another link, surely"]
    rows = [[routing, *map(str, row)] for routing, row in counts.items()]
    return table(head, rows, numbers_right=True)


def _small(routing: Any, fault: dict[str, Any], seed: int) -> pd.DataFrame:
    fabric = {"kind": "tor", "leaf_ports": 4, "uplinks": 4, "spines": 4, "routing": routing}
    cluster = {"servers": 8, "gpus_per_server": 2, "nics_per_server": 2, "fabric": fabric}
    job = {"name": "a", "model": SMALL, "dp": 4, "pp": 2, "tp": 2, "micro_batches": 4, "steps": 16,
           "mfu": 0.2, "compute_jitter": 0.01}  # fmt: skip
    place = {"a": "leaf000", "b": "spine01", "job": "a", "from_step": 6, "to_step": 11}
    values = {
        "name": "small", "seed": seed, "cluster": cluster, "jobs": [job],
        "faults": [fault | place], "collector": {"effects": [{"kind": "paths", "split": "one"}]},
    }  # fmt: skip
    with simulated(Scenario.model_validate(values)) as run:
        return diagnose(run.flows, run.topology).findings
