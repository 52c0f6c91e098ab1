"""
Two jobs on one uplink
======================

Connections of two jobs meet on the same uplink. No part is broken: the jobs share its capacity.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

run = ps.run("faults/job-congestion")
flows = run.flows()
flows = flows[flows["bytes"] > flows["bytes"].median()]
gbps = 8 * flows["bytes"] / (flows["end_ns"] - flows["start_ns"])
time_s = (flows["start_ns"] - flows["start_ns"].min()) / 1e9

# %%
# Rates of both jobs fall together, as those of one job do not do by chance.

job_of = run.diagnosis.jobs.set_index("address")["job"]
for job, rows in flows.groupby(flows["src"].map(job_of)):
    plt.plot(time_s[rows.index], gbps[rows.index], ".", markersize=2, label=job)
plt.xlabel("time [s]")
plt.ylabel("rate of a record [Gbit/s]")
plt.legend(loc="upper left", bbox_to_anchor=(1, 1))

# %%
# The diagnosis:

run.diagnosis.findings[["symptom", "cause", "job", "culprit", "first_step", "last_step"]]
