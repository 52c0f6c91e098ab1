"""
Logs beside flows
=================

A job fails and restarts. Flow records show when each NIC fell silent, and logs show what each rank
wrote. One line tells the cause.
"""

import matplotlib.pyplot as plt
import pandas as pd

import prism_sim as ps

run = ps.simulate("logs/crash")
lines = pd.read_parquet(run.folder / "truth" / "logs_lines.parquet").query("job == 'train-0'")
lines["role"].value_counts()

# %%
# Flow records, and above them the lines of the failure: those that indicate it, and those that
# only follow, when other ranks reach their time-out.

flows = run.flows()
origin_ns = flows["start_ns"].min()
plt.plot((flows["start_ns"] - origin_ns) / 1e9, flows["src"], "|", color="#a3adb8")
colours = {"indicator": "#c1440e", "cascade": "#0072b2"}
for role, rows in lines.groupby("role"):
    if role in colours:
        plt.plot((rows["time_ns"] - origin_ns) / 1e9, ["lines"] * len(rows), "d", label=role,
                 color=colours[role])  # fmt: skip
plt.xlabel("time [s]")
plt.legend(loc="upper left", bbox_to_anchor=(1, 1))
