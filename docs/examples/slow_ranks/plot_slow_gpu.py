"""
A slow GPU
==========

One rank computes at 60 % of its speed for eight steps.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

run = ps.run(
    "faults/slow-server",
    set={
        "faults": [
            {
                "kind": "slow_gpu",
                "job": "train",
                "rank": 11,
                "factor": 0.6,
                "from_step": 8,
                "to_step": 16,
            }
        ]
    },
)

# %%
# One pipeline is late: the row of the slow rank, and that of the stage which waits for it. The
# diagnosis tells both apart by who had its input and sent nothing.

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
