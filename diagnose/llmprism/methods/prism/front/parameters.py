"""The numbers of the front: what each of them bounds."""

from __future__ import annotations

IDLE_QUANTILE = 0.02
"""Of the silences inside one connection: the shortest that an exporter shows."""

LEAST_SILENCE_NS = 20_000.0
"""Shortest silence that can separate two phases of a step: a GPU starts a kernel in 10 us."""

DOUBLED_SHARE = 0.3
"""Of the records of a connection that overlap an equal predecessor: two exporters saw each."""

DOUBLED_NS = 50_000.0
"""Two exporters on one path see the same packet within this time."""

RETURN_FACTOR = 20.0
"""Bytes of data for one byte of the transport's acknowledgements, at least."""

LIGHT_SHARE = 1e-4
"""Of the busiest connection of a server: less is no training traffic."""

LIGHT_RECORD_BYTES = 4096.0
"""Typical record of control traffic is smaller."""

ANSWER_RECORD, ANSWER_BYTES = 1 / 32, 0.05
"""Typical record and total of answers, in shares of what they answer."""

MINOR_SHARE = 0.01
"""Of the heaviest connection of a pair: less is control traffic beside it."""

ONE_SIDED = 0.1
"""Least ratio of received and sent bytes of a server that trains: collectives conserve bytes."""

CONTROL_RECORD, CONTROL_SHARE = 0.02, 0.01
"""Of a lane's typical record, and of its bytes: control messages beside data are smaller."""

EQUAL_BYTES = 0.08
"""Relative deviation of the bytes of two steps of one lane that count as equal."""

THRESHOLDS = 28
"""Thresholds on silences that are tried, at the widest gaps between sorted silences."""

UNDER_WAY = 0.35
"""Of a typical record: what may be under way between two directions at a border."""

FORWARD_EVENTS = 40
"""Events after a border in which the balance of two directions may return below it."""

CONTRAST = 0.02
"""Least log ratio of the shortest cut silence and the longest inner one."""

NEAR_BEST = 0.88
"""Quality of a level, as a share of the best one's, that is kept in consideration."""

FEWEST_HABITS = 8
"""Parts of which each has more equal ones inside than any step has micro-batches: these are messages."""

MICRO_BATCH, MOST_MICRO_BATCHES = 0.25, 32.0
"""Extra silence after the last micro-batch of a step, in micro-batches, and their number, at most."""

BYTES_WEIGHT, QUALITY_WEIGHT, CONTRAST_SCALE = 0.3, 3.0, 0.5
"""Exponents of bytes and quality of a lane's vote for a number of steps, and its contrast scale."""

DEEP = 0.8
"""Of the deepest overlap of silences: moments that can be the border."""

CUT_RANGE = 0.45
"""Of a period: how far from a job's border a lane's border is searched."""

SILENCE_COST, BYTES_COST, DISTANCE_COST = 0.5, 12.0, 25.0
"""Log likelihoods of a border: per log silence, relative byte deviation, and periods of distance."""

LOCKED = 0.12
"""Of a period: how far the borders of two parts of one job walk apart."""

ORDERED_SHARE = 0.4
"""Of the pairs of a class that have one direction first: a pipeline."""

LOCKED_SHARE, LOCKED_APART = 0.75, 0.95
"""Of the borders of two parts that meet, if they are of one job: on common servers, and on others."""

ACTIVE = 0.5
"""Of the steps in which a lane that takes part in them has traffic."""

SUBSTANTIAL = 1e-3
"""Bytes of a NIC, as a share of those of the busiest job, that can be training."""

ANSWERED = 0.1
"""Of the time for which something is under way between two stages of a pipeline, at least."""
