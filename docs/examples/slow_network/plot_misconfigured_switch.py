"""
A leaf with wrong settings
==========================

A leaf forwards a part of its traffic slowly, such as with wrong settings for lossless traffic.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

run = ps.run("faults/misconfigured-switch")
flows = run.flows()
flows = flows[flows["bytes"] > flows["bytes"].median()]  # rates of short messages say little
gbps = 8 * flows["bytes"] / (flows["end_ns"] - flows["start_ns"])
time_s = (flows["start_ns"] - flows["start_ns"].min()) / 1e9

# %%
# Some records over the leaf are slow, and others, at the same time, are not.

crosses = flows["path"].str.contains("leaf001", regex=False)
plt.plot(time_s[~crosses], gbps[~crosses], ".", markersize=2, color="#a3adb8", label="others")
plt.plot(time_s[crosses], gbps[crosses], ".", markersize=3, color="#c1440e", label="over the leaf")
plt.xlabel("time [s]")
plt.ylabel("rate of a record [Gbit/s]")
plt.legend(loc="upper left", bbox_to_anchor=(1, 1))

# %%
# The diagnosis:

run.diagnosis.findings[["symptom", "cause", "culprit", "first_step", "last_step", "confidence"]]
