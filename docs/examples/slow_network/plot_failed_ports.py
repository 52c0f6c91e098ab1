"""
A leaf or a plane that is down
==============================

NICs with two ports go on with the other one: nothing stops, and rates are halved.
"""

import matplotlib.pyplot as plt
import numpy as np

import prism_sim as ps

runs = {name: ps.run(name) for name in ("faults/failed-leaf", "faults/failed-plane")}

# %%
# The bytes over each leaf in every 0.6 s, a step. A leaf that is down carries nothing.

_, panels = plt.subplots(1, 2)
for panel, (name, run) in zip(panels, runs.items(), strict=True):
    flows = run.flows()
    step = (flows["start_ns"] - flows["start_ns"].min()) // 600_000_000
    leaf = flows["path"].str.split("|").str[0]
    table = flows.pivot_table("bytes", leaf, step, "sum", 0) / 1e9
    begins_s = np.append(table.columns, table.columns[-1] + 1) * 0.6
    picture = panel.pcolormesh(begins_s, range(len(table) + 1), table, cmap="Blues", vmin=0)
    panel.set_yticks([place + 0.5 for place in range(len(table))], table.index, fontsize=6)
    panel.set_title(name)
    panel.set_xlabel("time [s]")
panels[0].set_ylabel("leaf")
plt.colorbar(picture, label="bytes from its NICs in a step [GB]")

# %%
# The diagnosis of the first one:

runs["faults/failed-leaf"].diagnosis.findings[["symptom", "cause", "culprit", "confidence"]]
