"""
A GPU that is slow now and then
===============================

One GPU is slow for short times, again and again.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

run = ps.run("faults/intermittent-gpu")

# %%
# Single steps are late. On average the rank is hardly slow, so means hide it.

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
