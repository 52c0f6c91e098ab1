"""
A process that ends
===================

A process ends in the middle of a step, and the job restarts after 30 s.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

run = ps.run("faults/crash")
flows = run.flows().sort_values("src")
first_ns = flows["start_ns"].min()

# %%
# All NICs are silent for half a minute, then the same servers go on with new connections. The
# picture shows the last steps before the silence: the rank that ended stopped first.

plt.hlines(flows["src"], (flows["start_ns"] - first_ns) / 1e9, (flows["end_ns"] - first_ns) / 1e9)
plt.xlim(0.9, 1.4)
plt.tick_params(axis="y", labelsize=6)
plt.xlabel("time [s]")
plt.ylabel("sending NIC")

# %%
# The diagnosis:

run.diagnosis.findings[["symptom", "cause", "culprit", "first_step", "last_step", "confidence"]]
