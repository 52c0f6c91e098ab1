"""
Slow storage
============

A storage server takes checkpoints at a quarter of its rate from step 8 on.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

run = ps.run("faults/slow-storage")
flows = run.flows()
saves = flows[flows["dst"].str.startswith("10.0.8.")]

# %%
# Each save is a burst of records to the storage. Later ones take longer, and the job waits.

time_s = (saves["start_ns"] - flows["start_ns"].min()) / 1e9
plt.bar(
    time_s,
    saves["bytes"] / 1e9,
    (saves["end_ns"] - saves["start_ns"]) / 1e9,
    align="edge",
    alpha=0.4,
)
plt.xlabel("time [s]")
plt.ylabel("record to the storage [GB]")

# %%
# The diagnosis:

run.diagnosis.findings[["symptom", "cause", "culprit", "first_step", "last_step", "confidence"]]
