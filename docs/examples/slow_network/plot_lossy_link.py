"""
A link that loses packets
=========================

Packets are lost on the link between a NIC and its leaf, and RDMA sends them again: the link has a
sixth of its rate.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

run = ps.run("faults/lossy-link")
flows = run.flows()
flows = flows[flows["bytes"] > flows["bytes"].median()]  # rates of short messages say little
gbps = 8 * flows["bytes"] / (flows["end_ns"] - flows["start_ns"])
time_s = (flows["start_ns"] - flows["start_ns"].min()) / 1e9

# %%
# A lossy link and a slow NIC look the same in flows: both names of the cause are right.

crosses = flows["src"].eq("10.0.1.1") | flows["dst"].eq("10.0.1.1")
plt.plot(time_s[~crosses], gbps[~crosses], ".", markersize=2, color="#a3adb8", label="others")
plt.plot(
    time_s[crosses], gbps[crosses], ".", markersize=3, color="#c1440e", label="the NIC at the link"
)
plt.xlabel("time [s]")
plt.ylabel("rate of a record [Gbit/s]")
plt.legend(loc="upper left", bbox_to_anchor=(1, 1))

# %%
# The diagnosis:

run.diagnosis.findings[["symptom", "cause", "culprit", "first_step", "last_step", "confidence"]]
