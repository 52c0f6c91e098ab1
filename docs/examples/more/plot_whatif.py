"""
What does each fault cost?
==========================

``whatif`` simulates a scenario again without each of its faults. All random draws are the same, so
the difference is the effect of the fault.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

costs = ps.whatif("faults/several", processes=1)

# %%
# Three faults overlap in this scenario. Their costs do not add up, because ranks wait for the
# slowest.

table = costs.table
plt.barh(table["change"], table["extra_s"])
plt.xlabel("time that the job would be shorter without it [s]")

# %%
costs
