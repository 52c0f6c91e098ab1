"""
Fewer uplinks than there should be
==================================

Two faults have the same effect: uplinks of a leaf fail, or its hash sends most connections over one
of them.
"""

import matplotlib.pyplot as plt
import pandas as pd

import prism_sim as ps

failed = {"kind": "failed_uplinks", "leaf": "leaf001", "failed": 1,
          "job": "train", "from_step": 8, "to_step": 16}  # fmt: skip
runs = {
    "failed uplinks": ps.run("faults/polarised-hashing", set={"faults": [failed]}, out="failed"),
    "polarised hash": ps.run("faults/polarised-hashing", out="hash"),
}

# %%
# The path of each record has the spine, so the bytes over each uplink can be counted.

_, panels = plt.subplots(1, 2, sharey=True)
for panel, (name, run) in zip(panels, runs.items(), strict=True):
    flows = run.flows()
    over = flows[flows["path"].str.match(r"leaf001\|spine")]
    second = (over["start_ns"] - flows["start_ns"].min()) // 200_000_000 / 5
    uplink = over["path"].str.split("|").str[1]
    table = pd.pivot_table(over, "bytes", second, uplink, "sum", 0) / 1e9
    table.plot.area(ax=panel, title=name, xlabel="time [s]", ylabel="bytes in 0.2 s [GB]")
    panel.legend(title="over", loc="upper right", facecolor="white", frameon=True, framealpha=0.9)

# %%
# The diagnosis of the second one:

run.diagnosis.findings[["symptom", "cause", "culprit", "first_step", "last_step", "confidence"]]
