"""
A healthy job
=============

No two GPUs are equally fast, and no step is exactly as long as the one before. A diagnosis must not
call that a fault.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

run = ps.run("faults/healthy-spread")

# %%
# The length of each step, of every NIC, as reconstructed from flow records:

steps = run.diagnosis.steps
plt.plot(steps["step"], (steps["end_ns"] - steps["start_ns"]) / 1e6, ".", markersize=3)
plt.ylim(0)
plt.xlabel("step")
plt.ylabel("length of the step [ms]")

# %%
# What was compared, and what follows:

print("\n".join(run.diagnosis.conclusion.lines()))
