"""
A slow uplink
=============

The link from a leaf to a spine has a fifth of its rate.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

run = ps.run(
    "faults/polarised-hashing",
    set={
        "faults": [
            {
                "kind": "slow_link",
                "a": "leaf001",
                "b": "spine00",
                "factor": 0.2,
                "job": "train",
                "from_step": 8,
                "to_step": 16,
            }
        ]
    },
)
flows = run.flows()
flows = flows[flows["bytes"] > flows["bytes"].median()]  # rates of short messages say little
gbps = 8 * flows["bytes"] / (flows["end_ns"] - flows["start_ns"])
time_s = (flows["start_ns"] - flows["start_ns"].min()) / 1e9

# %%
# Only records whose path has both switches are slow; those over the other spine are not.

crosses = flows["path"].str.contains("leaf001|spine00", regex=False)
crosses |= flows["path"].str.contains("spine00|leaf001", regex=False)
plt.plot(time_s[~crosses], gbps[~crosses], ".", markersize=2, color="#a3adb8", label="others")
plt.plot(time_s[crosses], gbps[crosses], ".", markersize=3, color="#c1440e", label="over the link")
plt.xlabel("time [s]")
plt.ylabel("rate of a record [Gbit/s]")
plt.legend(loc="upper left", bbox_to_anchor=(1, 1))

# %%
# The diagnosis:

run.diagnosis.findings[["symptom", "cause", "culprit", "first_step", "last_step", "confidence"]]
