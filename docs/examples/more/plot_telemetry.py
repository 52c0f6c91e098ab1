"""
What telemetry hides
====================

The same job with the same slow server, seen by four exporters.
"""

import matplotlib.pyplot as plt
import pandas as pd

import prism_sim as ps

exporters = {
    "every message": {},
    "idle gap 5 ms": {"collector.message_boundary": False, "collector.idle_gap_us": 5_000},
    "idle gap 1 s": {"collector.message_boundary": False, "collector.idle_gap_us": 1_000_000},
    "1 packet in 1,000": {"collector.effects": [{"kind": "sampling", "one_in": 1_000}]},
}
runs = {
    name: ps.run("faults/slow-server", set=changes, out=f"run-{number}")
    for number, (name, changes) in enumerate(exporters.items())
}

# %%
# Records of one NIC in the first half second. Where records merge, no step begins or ends.

_, panels = plt.subplots(len(runs), 1, sharex=True)
for panel, (name, run) in zip(panels, runs.items(), strict=True):
    flows = run.flows()
    sent = flows[flows["src"] == "10.0.5.1"]
    start_s = (sent["start_ns"] - flows["start_ns"].min()) / 1e9
    panel.barh(0, (sent["end_ns"] - sent["start_ns"]) / 1e9 + 0.001, left=start_s, alpha=0.5)
    panel.set_yticks([0], [name])
panels[-1].set_xlim(0, 0.5)
panels[-1].set_xlabel("time [s]")

# %%
# What is left for a diagnosis. ``llmprism check`` says which setting would bring the rest.

pd.DataFrame(
    {
        name: {
            "records": len(run.flows()),
            "steps": run.diagnosis.steps["step"].nunique(),
            "findings": len(run.diagnosis.findings),
            "can tell": run.diagnosis.verdict.can_tell,
        }
        for name, run in runs.items()
    }
).T
