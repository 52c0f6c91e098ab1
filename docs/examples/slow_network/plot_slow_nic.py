"""
A slow NIC
==========

One NIC has a fifth of its rate for eight steps.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

run = ps.run(
    "faults/slow-server",
    set={
        "faults": [
            {
                "kind": "slow_nic",
                "server": "s0002",
                "nic": 1,
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
# Records of the NIC are slow. In a ring of gradients every hop moves at the pace of the slowest, so
# the records of its whole ring are slow too: the NIC stands out where it is alone, in its pipeline.

crosses = flows["src"].eq("10.0.2.2") | flows["dst"].eq("10.0.2.2")
plt.plot(time_s[~crosses], gbps[~crosses], ".", markersize=2, color="#a3adb8", label="others")
plt.plot(time_s[crosses], gbps[crosses], ".", markersize=3, color="#c1440e", label="the NIC")
plt.xlabel("time [s]")
plt.ylabel("rate of a record [Gbit/s]")
plt.legend(loc="upper left", bbox_to_anchor=(1, 1))

# %%
# The diagnosis:

run.diagnosis.findings[["symptom", "cause", "culprit", "first_step", "last_step", "confidence"]]
