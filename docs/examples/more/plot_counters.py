"""
Counters instead of flow records
================================

The byte counters of switch ports, read fifty times a second, of a job with a slow server.
"""

import matplotlib.pyplot as plt
import pandas as pd

import prism_sim as ps

counters = {"interval_s": 0.02, "refresh_s": 0.02}
run = ps.simulate("faults/slow-server", set={"collector.counters": counters})
readings = pd.read_parquet(run.folder / "counters.parquet")
readings.head(3)

# %%
# The rates of four ports. All ports of a job rise and fall together, whatever each of them carries;
# steps 8 to 15 are longer.

for port, rows in list(readings.groupby("port"))[:4]:
    time_s = (rows["time_ns"] - readings["time_ns"].min()) / 1e9
    plt.plot(time_s, 8 * rows["in_bytes"].diff() / rows["time_ns"].diff(), label=port)
plt.xlim(0.5, 1.5)
plt.xlabel("time [s]")
plt.ylabel("rate [Gbit/s]")
plt.legend(loc="upper left", bbox_to_anchor=(1, 1))
