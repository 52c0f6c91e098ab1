"""
A job that hangs
================

One rank stops without a word. The others wait for it, until somebody ends the job.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

run = ps.run("faults/hang")
flows = run.flows().sort_values("src")
first_ns = flows["start_ns"].min()

# %%
# Each NIC sends what it can without the missing rank. The first row that ends early is the rank.

plt.hlines(flows["src"], (flows["start_ns"] - first_ns) / 1e9, (flows["end_ns"] - first_ns) / 1e9)
plt.xlim(0.9, 1.4)
plt.tick_params(axis="y", labelsize=6)
plt.xlabel("time [s]")
plt.ylabel("sending NIC")

# %%
# The diagnosis:

run.diagnosis.findings[["symptom", "cause", "culprit", "first_step", "last_step", "confidence"]]
