"""A set of flows that wait for each other, which compiled code runs in one call.

A program is a table of flows. Each flow has its links, its size, its latency, and the flows that
wait for its end. No Python code runs between the ends of flows. A program uses the same core as
:class:`~prism_sim.cluster.fabric.Fabric`, so it serves to compare the core with other simulators,
flow by flow.

A flow whose last predecessor ends at t begins to send bytes at t + latency and ends when the last
byte has been sent (as in SimGrid's CM02 model).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prism_sim.cluster.core import run_program
from prism_sim.cluster.state import NEVER, Int32s, Int64s, new_net
from prism_sim.cluster.templates import Templates


@dataclass(frozen=True)
class Program:
    """Flows and their dependencies.

    Attributes
    ----------
    capacity : bytes per nanosecond of each link, shape (links,).
    templates : the links of each kind of flow.
    template : template of each flow, shape (flows,).
    size_bytes, latency_ns : of each flow, shape (flows,).
    waits_for : number of predecessors of each flow, shape (flows,).
    after_ptr, after : compressed rows; the flows that wait for flow i are
        ``after[after_ptr[i]:after_ptr[i + 1]]``.
    """

    capacity: NDArray[np.float64]
    templates: Templates
    template: Int32s
    size_bytes: Int64s
    latency_ns: Int64s
    waits_for: Int32s
    after_ptr: Int64s
    after: Int32s

    def run(self) -> Int64s:
        """Run from time 0; return the end of each flow [ns], shape (flows,).

        Flows that never become ready (a cycle of waits) end at ``NEVER``.
        """
        flows = len(self.template)
        end_ns = np.full(flows, NEVER, np.int64)
        uses = np.diff(self.templates.ptr[: self.templates.count + 1])[self.template]
        t = self.templates
        net = new_net(self.capacity, t.tables, flows + 1, 2 * int(uses.sum()) + 64)
        run_program(
            net, self.template, self.size_bytes, self.latency_ns, self.waits_for.copy(),
            self.after_ptr, self.after, end_ns,
        )  # fmt: skip
        return end_ns
