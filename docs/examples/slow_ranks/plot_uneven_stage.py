"""
A stage with too much work
==========================

All ranks of one pipeline stage have more work than those of the other: a wrong split of the model.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

run = ps.run("faults/uneven-stage")

# %%
# Steps are longer, and no pipeline is later than another, because all have the same slow stage.

steps = run.diagnosis.steps
length_ms = (steps["end_ns"] - steps["start_ns"]) / 1e6
messages = run.diagnosis.spans.query("kind == 'pp'")
last_ms = messages.groupby(["address", "step"], observed=True)["end_ns"].max().unstack() / 1e6
_, (above, below) = plt.subplots(2, 1, sharex=True)
above.plot(steps["step"], length_ms, ".", markersize=3)
above.set_ylabel("step [ms]")
below.plot((last_ms - last_ms.median()).max())
below.set_ylim(0, 5)
below.set_ylabel("latest pipeline [ms]")
below.set_xlabel("step")

# %%
# The diagnosis compares stages, because it knows which NICs belong to which:

run.diagnosis.findings[["symptom", "cause", "culprit", "first_step", "last_step", "confidence"]]
