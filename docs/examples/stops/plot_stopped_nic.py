"""
A NIC that stops
================

A NIC sends and receives nothing from one moment on.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

run = ps.run("faults/stopped-nic")
flows = run.flows().sort_values("src")
first_ns = flows["start_ns"].min()

# %%
# Its records end, and what others send to it never ends.

plt.hlines(flows["src"], (flows["start_ns"] - first_ns) / 1e9, (flows["end_ns"] - first_ns) / 1e9)
plt.xlim(0.9, 1.4)
plt.tick_params(axis="y", labelsize=6)
plt.xlabel("time [s]")
plt.ylabel("sending NIC")

# %%
# The diagnosis:

run.diagnosis.findings[["symptom", "cause", "culprit", "first_step", "last_step", "confidence"]]
