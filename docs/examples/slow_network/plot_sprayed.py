"""
A fabric that sprays packets
============================

Each message goes over all uplinks at once. One leaf gives an uplink four times its weight, or one
NIC sends pause frames to its leaf.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

window = {"job": "train", "from_step": 8, "to_step": 16}
faults = {
    "an uplink with 4 times its weight": {"kind": "uneven_spraying", "leaf": "leaf001", "times": 4},
    "a NIC that pauses its leaf": {
        "kind": "paused_port", "server": "s0002", "nic": 1, "every_s": 0.02, "lasts_s": 0.01,
    },
}  # fmt: skip
runs = {
    name: ps.run(
        "faults/polarised-hashing",
        set={"cluster.fabric.routing": "spray", "faults": [fault | window]},
        out=fault["kind"],
    )
    for name, fault in faults.items()
}

# %%
# A path does not name an uplink any more. What is left is the rate of each NIC, and its peers.

_, panels = plt.subplots(1, 2, sharey=True)
for panel, (name, run) in zip(panels, runs.items(), strict=True):
    flows = run.flows()
    large = flows[flows["bytes"] > flows["bytes"].median()]
    gbps = 8 * large["bytes"] / (large["end_ns"] - large["start_ns"])
    time_s = (large["start_ns"] - flows["start_ns"].min()) / 1e9
    panel.plot(time_s, gbps, ".", markersize=2)
    panel.set_title(name)
    panel.set_xlabel("time [s]")
panels[0].set_ylabel("rate of a record [Gbit/s]")

# %%
# The diagnosis of the second one:

run.diagnosis.findings[["symptom", "cause", "culprit", "first_step", "last_step", "confidence"]]
