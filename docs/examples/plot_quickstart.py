"""
A first run
===========

Two jobs on 128 GPUs; one GPU is slow for two steps.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

run = ps.run("tiny/pair")
steps = run.diagnosis.steps
plt.plot(steps["step"], (steps["end_ns"] - steps["start_ns"]) / 1e6, ".")
plt.xlabel("step")
plt.ylabel("length [ms]")
