"""
A slow server
=============

Both GPUs of one server compute at three quarters of their speed from step 8 to step 15.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

run = ps.run("faults/slow-server")

# %%
# The pipelines of its two ranks end their messages late, and so do the pipelines' other stages.
# In the ring of gradients all ranks wait for them, so the picture shows pipelines, not one row.

messages = run.diagnosis.spans.query("kind == 'pp'")
last_ms = messages.groupby(["address", "step"], observed=True)["end_ns"].max().unstack() / 1e6
late_ms = last_ms - last_ms.median()  # of a NIC, compared with the median NIC of the step
picture = plt.pcolormesh(late_ms, cmap="Purples")
plt.colorbar(picture, label="last message later than the median [ms]")
plt.yticks([place + 0.5 for place in range(len(late_ms))], late_ms.index, fontsize=6)
plt.xlabel("step")
plt.ylabel("NIC")

# %%
# What the diagnosis says of it, from the same records:

run.diagnosis.findings[["symptom", "cause", "culprit", "first_step", "last_step", "confidence"]]
