"""
Garbage collection and slow loaders
===================================

Two faults that are hard to tell from flows: collections of garbage stop the processes of a server
in turn, and a loader of data makes one rank late in every second step.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

runs = {name: ps.run(name) for name in ("faults/gc-pauses", "faults/loader-stalls")}

# %%
# Garbage collection hits both ranks of the server, each in a step of its own; the loader hits one.

_, panels = plt.subplots(1, 2, sharey=True)
for panel, (name, run) in zip(panels, runs.items(), strict=True):
    messages = run.diagnosis.spans.query("kind == 'pp'")
    last_ms = messages.groupby(["address", "step"], observed=True)["end_ns"].max().unstack() / 1e6
    panel.pcolormesh(last_ms - last_ms.median(), cmap="Purples", vmin=0)
    panel.set_yticks([place + 0.5 for place in range(len(last_ms))], last_ms.index, fontsize=6)
    panel.set_title(name)
    panel.set_xlabel("step")
panels[0].set_ylabel("NIC")

# %%
# The diagnosis of the second one:

run.diagnosis.findings[["symptom", "cause", "culprit", "first_step", "last_step", "confidence"]]
