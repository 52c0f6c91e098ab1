"""
Unequal batches and popular experts
===================================

No machine is slow in either of these: sequences of unequal length make ranks late by chance, and
popular experts make some ranks exchange more than others.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

names = ("faults/length-imbalance", "faults/expert-imbalance")
runs = {name: ps.run(name) for name in names}

# %%
# With unequal lengths another rank is the last in every step. With popular experts, the same ones.

_, panels = plt.subplots(1, 2)
for panel, (name, run) in zip(panels, runs.items(), strict=True):
    messages = run.diagnosis.spans.query("kind == 'pp'")
    last_ms = messages.groupby(["address", "step"], observed=True)["end_ns"].max().unstack() / 1e6
    panel.pcolormesh(last_ms - last_ms.median(), cmap="Purples", vmin=0)
    panel.set_title(name)
    panel.set_xlabel("step")
panels[0].set_ylabel("NIC, in the order of addresses")

# %%
# Neither is a broken part. The diagnosis may name the job, and should name no machine:

runs["faults/length-imbalance"].diagnosis.findings[["symptom", "cause", "culprit", "confidence"]]
