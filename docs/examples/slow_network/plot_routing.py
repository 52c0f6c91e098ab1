"""
One slow link under four kinds of routing
=========================================

The link from a leaf to a spine has a fifth of its rate. What flows show of it depends on what
switches do with equal paths.
"""

import matplotlib.pyplot as plt

import prism_sim as ps

slow = {"kind": "slow_link", "a": "leaf001", "b": "spine00", "factor": 0.2,
        "job": "train", "from_step": 8, "to_step": 16}  # fmt: skip
kinds = {
    "ecmp": "ecmp",
    "flowlet": {"kind": "flowlet", "gap_us": 100},
    "adaptive, per message": {"kind": "adaptive", "per": "message"},
    "spray": "spray",
}
runs = {
    name: ps.run(
        "faults/polarised-hashing",
        set={"faults": [slow], "cluster.fabric.routing": kind},
        out=f"run-{number}",
    )
    for number, (name, kind) in enumerate(kinds.items())
}

# %%
# With a hash, a few connections are slow all the time. Flowlets and adaptive routing give the link
# to one message and then to another. Sprayed messages all wait for it, and no record names a spine.

_, panels = plt.subplots(2, 2, sharex=True, sharey=True, figsize=(9, 6))
for panel, (name, run) in zip(panels.flat, runs.items(), strict=True):
    flows = run.flows()
    begin_ns = flows["start_ns"].min()
    flows = flows[flows["path"].str.startswith("leaf001|")]
    flows = flows[flows["bytes"] > flows["bytes"].median() / 2]
    gbps = 8 * flows["bytes"] / (flows["end_ns"] - flows["start_ns"])
    time_s = (flows["start_ns"] - begin_ns) / 1e9
    for spine, colour, label in (
        ("spine00", "#c1440e", "over the slow link"),
        ("spine01", "#5b7f95", "over the other spine"),
        ("?", "#a3adb8", "over both"),
    ):
        own = flows["path"].str.split("|").str[1] == spine
        if own.any():
            panel.plot(time_s[own], gbps[own], ".", markersize=3, color=colour, label=label)
    panel.set(title=name, ylim=(0, 430))
for row in panels:
    row[1].legend(loc="upper left", bbox_to_anchor=(1, 1))
panels[1, 0].set_xlabel("time [s]")
panels[1, 1].set_xlabel("time [s]")
panels[0, 0].set_ylabel("rate of a record [Gbit/s]")
panels[1, 0].set_ylabel("rate of a record [Gbit/s]")

# %%
# The diagnosis names the link where a hash ties connections to it. Where each message is spread
# over all links, no record can name one, and the conclusion says so: counters of the spines' ports
# can.

for name, run in runs.items():
    found = run.diagnosis.findings[["cause", "culprit", "confidence"]]
    unknown = [text for text in run.diagnosis.conclusion.not_judged if "which link" in text]
    print(name, *found.to_dict("records"), *unknown, sep="\n", end="\n\n")
