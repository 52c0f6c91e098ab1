"""
Others send to the same NIC
===========================

Servers outside of the job send to one of its NICs for some steps.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

run = ps.run("faults/incast-burst")
flows = run.flows()
flows = flows[flows["bytes"] > flows["bytes"].median()]  # rates of short messages say little
gbps = 8 * flows["bytes"] / (flows["end_ns"] - flows["start_ns"])
time_s = (flows["start_ns"] - flows["start_ns"].min()) / 1e9

# %%
# The NIC has less left for its job. The other traffic has records too, so its senders are known.

crosses = flows["dst"].eq("10.0.4.1")
plt.plot(time_s[~crosses], gbps[~crosses], ".", markersize=2, color="#a3adb8", label="others")
plt.plot(time_s[crosses], gbps[crosses], ".", markersize=3, color="#c1440e", label="to the NIC")
plt.xlabel("time [s]")
plt.ylabel("rate of a record [Gbit/s]")
plt.legend(loc="upper left", bbox_to_anchor=(1, 1))

# %%
# The diagnosis:

run.diagnosis.findings[["symptom", "cause", "culprit", "first_step", "last_step", "confidence"]]
