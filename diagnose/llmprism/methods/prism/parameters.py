"""The numbers of the search for findings, and the scale of shares of all modules, with reasons.

Nothing here comes from a world, a study or the simulator. A share is a fraction of what it is a
share of; deviations are standard deviations.
"""

from __future__ import annotations

EQUAL = 0.02
"""Of bytes, or of a distance in time: a difference that counts as none. Headers, samples and
messages that an exporter cuts in two add as much."""

FEWEST = 3
"""Steps, messages, ranks or stages of which one may stand out, or that show a pattern: of two,
nothing shows which is the usual one."""

SMALL, QUARTER, HALF, MOSTLY, NEARLY = 0.1, 0.25, 0.5, 0.75, 0.9
"""The scale of shares: a small part, a good part, the majority, most, and nearly all. Some steps
are cut off or slow, and some records lost, joined or cut in two."""

SURE = 0.9
"""Confidence of what is seen, or quality of what is believed rather than its alternatives."""

FALSE_FINDINGS = 1.0
"""False findings that a user accepts in 1,000 healthy job-steps; sets every penalty."""

TAIL = 4.0
"""Degrees of freedom of the noise: computing has rare long pauses, so tails are heavy (Student's t,
as usual in robust regression: Lange, Little and Taylor, JASA 1989)."""

LEVELS = tuple(0.02 * 2 ** (step / 2) for step in range(24))
"""Slowdowns that are tried, as a share of the normal duration: every second one is twice as much,
so the nearest costs little likelihood."""

VARIES = 0.2
"""Of a level: by which it differs between steps, which also covers what lies between two LEVELS."""

PAUSES = 0.5
"""Share of the steps of a window that pauses affect, before anything is known."""

LEAST_COST = 0.01
"""Of a step: what costs its job less is no finding. Faults below 3 % are hard to act on, and a
hundredth is what healthy jobs vary by between runs."""

OWN_SHARE = 0.4
"""Of what a window costs: a culprit has to lose as much itself on the critical path. Half of it,
less what noise and the estimate of normal durations take."""

NOISE_FLOOR = 0.004
"""Of a duration: nothing is known better. Clocks of exporters and the ends of records that share a
link differ by about this much of a pass."""

IRREGULAR = 0.5
"""Of the steps: a connection with its usual number of bursts in fewer is not divided by them."""

MERGED = 0.25
"""Of the pace of a job's fastest connection: bursts of messages that are slower hold silences. Few
links are shared by more than four transfers: most fabrics are oversubscribed 4:1 at most."""

MOST_SLOTS = 600
"""Bursts of a connection in a step that are distinguished: 64 micro-batches of 8 chunks."""

LACKING = 0.02
"""Of a connection's bytes in a step: with more missing, bursts are not matched by bytes."""

NEAR = 0.25
"""Of the time between bursts: how near one has to be to its usual time, where others are lost."""

NEAREST = 8
"""Arrivals before a send that are tried as its parents: those before them come earlier still."""

MOSTLY_SILENT = 0.5
"""Of the silence of one hop of a ring: if all are silent together for less, none waits for a rank
that is late to all of them."""

RENDEZVOUS, AT_ONCE = 0.9, 0.1
"""Share of the steps in which messages begin together that are one exchange; and how near, of the
time between messages. A side that waits for the other answers within a round trip."""

VIOLATIONS = 0.03
"""Share of the steps in which a parent may seem to follow its child: clocks and lost records."""

UNEQUAL = 0.08
"""By which nearly all healthy GPUs of one type differ from their median: 8 % on average between the
best and the others of a cluster (Sinha et al., SC'22, "Not all GPUs are created equal")."""

UNEQUAL_LINKS = 0.3
"""The same of transfers over as many hops: hashing and neighbours make them differ more."""

HIT, FALSE_HIT = 0.85, 0.03
"""Chance that a connection looks slow, if it crosses the slow part of the network, and if not."""

DIRECTED, WHOLE_SWITCH = 0.7, 0.5
"""Log odds against a fault of one direction only, and of a whole switch: cables and NICs fail more
often than switches (Llama 3, table 5, and Gill et al., SIGCOMM'11)."""

AS_LIKELY = 1.5
"""Log odds: suspects that are less likely than the first by no more are named with it."""

MOST_NAMED = 6
"""Suspects that are named together at most."""

SLOW_DEVIATIONS, SLOW_SHARE = 4.0, 0.03
"""What makes a communicator slow in a window: this many deviations, and this share of its time."""

LATEST = 0.35
"""Of the longest delay at the end of a ring: hops that end so near the last are bottlenecks."""

BUSY, IDLE = 0.75, 0.25
"""Shares of what the slowest hop sends longer: a hop above is a bottleneck too, one below waits."""

MOST_FINDINGS = 8
"""Findings of one kind about one job: more is too much for a user to check."""

FEWEST_HABITS = 2
"""Steps at equal distances, and longer by as much, that make a habit."""

HABIT_DEVIATIONS = 4.0
"""By which steps with a habit are longer than others: less disappears in noise."""

HEALTHY_SHARE, HEALTHY_DEVIATIONS = 0.15, 3.0
"""Share of the steps that are the fastest group of a job at least, and by how many deviations they
may differ: nearly all of a group is within three."""

SINGLE = 2.0
"""Log odds against a fault that lasts for one step: programs make rare long pauses themselves."""

MIXED = 0.7
"""Of the time that a job is slower: a cause outside the job that lasts for less is none of it."""

TOGETHER_NS, TOGETHER = 1_000_000, 0.005
"""Apart, and of a step: ranks that join a collective within both joined together. Exporters' clocks
on one network, synchronised by NTP, differ by up to a millisecond."""

WARM_UP = 5
"""Steps in which programs compile and fill caches; a job may be slow in as many, as in profiles."""

ENDS_APART = 6.0
"""Deviations by which the ends of hops differ for one of them to be slow."""

LAST_ROUND = 1e-4
"""Of what a ring takes longer: a slow hop ends later by one of at most ten thousand rounds (64
layers of 64 ranks)."""

LEAST_SURE = 0.3
"""Confidence of a suspect outside the graph: what is wrong in two of three cases is a guess."""

EXACT = 1e-3
"""Of the bytes of an exchange: counters of switches are exact but for headers."""

ALWAYS_SHARE = 0.15
"""Of a peer's duration: what is slow in every step has to be this much slower than its peers, since
healthy GPUs of one type differ by as much (see UNEQUAL)."""

ALWAYS_SURE = 0.8
"""Confidence at most of what is slow in every step: no step shows what is healthy."""

EVEN = 0.6
"""By which a stage is longer than the others: the output layer of a small model adds half."""

SAVED = 0.1
"""Of a step: what an even division has to save; for less, nobody starts the job again with another
one."""

OWN_WEIGHT = 0.4
"""Of own work beside the graph, in what a unit lost: with less, captures name another rank."""

FITS = 0.5
"""Deviation of the logarithm of what a culprit lost from what the steps are longer by: transfers
that overlap with computation hide up to half of it. Where nothing hides, it is a tenth of that."""

UNEXPLAINED = 4.4
"""Log odds, in each step, of a cause that records do not show: as likely as one that explains a
third of it (see FITS)."""

UNEVEN_SURE = 0.4
"""Confidence of a stage that is longer in every step: most are so by design, since layers cannot be
divided evenly, and nobody called that a fault."""

ALL_AGREE, MOST_AGREE = 0.7, 2.0
"""Log odds of a stage for each further server of it that lost as much, and for all of them: what
records show of one server may be wrong by half, and servers of a stage wait for the same."""
