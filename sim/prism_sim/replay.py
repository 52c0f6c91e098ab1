"""Replays one simulated stream of records through other collectors.

The simulation runs once, with a collector without effects. The export of another collector follows
from its records: the effects of the scenario act on them as they would in the simulation, with
the same draws, since every draw is keyed by the record. So further levels of noise and further
windows need no simulation.

Records that were cut cannot be joined again, with one exception: if message boundaries do not end
records, silence alone does. So the replayed idle gap must be as long as the simulated one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from llmprism.io.flows import FlowTable, canonical_order
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.routes import Router
from prism_sim.cluster.templates import Templates
from prism_sim.cluster.ways import ROCE_PORT, UDP
from prism_sim.collector.config import CollectorConfig
from prism_sim.collector.cutting import Cutter
from prism_sim.collector.effects.base import Scene
from prism_sim.collector.rows import ROW, Rows
from prism_sim.collector.tuples import FiveTuple, Tuples
from prism_sim.draws import Draws
from prism_sim.loading.scenario import Scenario


class Stream:
    """Undisturbed records of a run, for export by other collectors.

    Parameters
    ----------
    flows : all records of the run, whose addresses are those of the cluster's NICs in order.
    scenario : the scenario of that run.
    """

    def __init__(self, flows: FlowTable, scenario: Scenario) -> None:
        self._flows = flows
        self._epoch_ns = scenario.epoch_ns
        layout, draws = Layout(scenario.cluster), Draws(scenario.seed)
        assert flows.addresses == layout.addresses
        tuples = Tuples(Router(layout, Templates(), draws), draws)
        self._scene = Scene(tuples, draws, scenario.epoch_ns)
        self._tuple = _numbered(flows, tuples)

    def exported(self, collector: dict[str, Any], first_s: float, last_s: float) -> FlowTable:
        """Records of a time window from another collector, given as in a scenario."""
        if not collector:
            return self.window(self._flows, first_s, last_s)
        model = CollectorConfig.model_validate(collector)
        rows = self._rows(self._span(self._flows, first_s, last_s))
        effects = model.in_order()
        for effect in effects:
            if not effect.after_cutting:
                rows = effect.stage(self._scene)(rows)
        if model.recuts:
            rows = Cutter(model, self._scene).cut(rows, last=True)
        for effect in effects:
            if effect.after_cutting:
                rows = effect.stage(self._scene)(rows)
        return self._as_flows(rows)

    def window(self, flows: FlowTable, first_s: float, last_s: float) -> FlowTable:
        """The records of ``flows`` that start in an interval of simulated time [s]."""
        span = self._span(flows, first_s, last_s)
        return _table(flows, {name: getattr(flows, name)[span] for name in _OURS})

    def _span(self, flows: FlowTable, first_s: float, last_s: float) -> slice:
        begin, end = (self._epoch_ns + round(at * 1e9) for at in (first_s, last_s))
        return slice(*np.searchsorted(flows.start_ns, [begin, end]).tolist())

    def _rows(self, span: slice) -> Rows:
        flows, tuples = self._flows, self._scene.tuples
        of = self._tuple[span]
        rows = np.zeros(len(of), ROW)
        rows["tuple"] = of
        for name in ("start_ns", "end_ns"):
            rows[name] = getattr(flows, name)[span] - self._epoch_ns
        rows["bytes"] = rows["payload"] = flows.bytes[span]
        rows["arrival_ns"] = rows["end_ns"]
        for name, column in (("src", "src"), ("dst", "dst"), ("path", "path"),
                             ("exporter", "leaf_in")):  # fmt: skip
            rows[name] = tuples.column(column)[of]
        rows["id"] = self._scene.identity(rows)
        return rows

    def _as_flows(self, rows: Rows) -> FlowTable:
        columns: dict[str, Any] = {
            "start_ns": rows["start_ns"] + self._epoch_ns,
            "end_ns": rows["end_ns"] + self._epoch_ns,
            "bytes": np.ascontiguousarray(rows["bytes"]),
        }
        columns |= {name: np.ascontiguousarray(rows[name]) for name in ("src", "dst", "path")}
        order = canonical_order(columns)
        if order is not None:
            columns = {name: column[order] for name, column in columns.items()}
        return _table(self._flows, columns, self._scene.tuples.router.paths)


_OURS = ("start_ns", "end_ns", "src", "dst", "bytes", "path")


def _table(flows: FlowTable, columns: dict[str, Any], paths: list[str] | None = None) -> FlowTable:
    return replace(flows, **columns, paths=flows.paths if paths is None else paths, optional={})


def _numbered(flows: FlowTable, tuples: Tuples) -> np.ndarray[Any, np.dtype[np.int32]]:
    """The number of each record's 5-tuple."""
    import pandas as pd

    port = flows.optional["src_port"].astype(np.int64)
    nics = len(flows.addresses)
    key = (port * nics + flows.src) * nics + flows.dst
    code, found = pd.factorize(key)
    number = [
        tuples.add(FiveTuple(one // nics % nics, one % nics, one // nics**2, ROCE_PORT, UDP))
        for one in found.tolist()
    ]
    return np.array(number, np.int32)[code]
