"""
A campaign of faults
====================

A scenario may draw its faults at random: as unevenly over servers and time as published. The truth
has each of them, so findings can be compared with it.
"""

import matplotlib.pyplot as plt
import pandas as pd

import prism_sim as ps

run = ps.run("faults/campaign")
truth, found = run.truth("faults"), run.diagnosis.findings

# %%
# Above the faults, below the findings. A fault that no step had to wait for leaves no trace.

origin_ns = run.flows()["start_ns"].min()
for colour, rows, name in (("#e6b800", truth, "fault"), ("#aa3377", found, "finding")):
    labels = f"{name}: " + rows["culprit"]
    start_s = (rows["start_ns"] - origin_ns) / 1e9
    end_s = (rows["end_ns"] - origin_ns) / 1e9
    plt.barh(labels, end_s - start_s, left=start_s, color=colour)
plt.xlabel("time [s]")
plt.gca().invert_yaxis()

# %%
# The score of this run:

faults = run.score["faults"]
names = ["injected", "detected", "findings", "true_alarms", "recall"]
pd.Series({name: faults[name] for name in names}, name="value").to_frame()
