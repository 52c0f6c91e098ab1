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
"""Parts that each have more equal ones inside than a step has micro-batches: those are messages."""

MICRO_BATCH, MOST_MICRO_BATCHES = 0.25, 32.0
"""Most extra silence after the last micro-batch of a step, in micro-batches, and their number."""

BYTES_WEIGHT, QUALITY_WEIGHT, CONTRAST_SCALE = 0.3, 3.0, 0.5
"""Exponents of bytes and quality of a lane's vote for a number of steps, and its contrast scale."""

DEEP = 0.8
"""Of the deepest overlap of silences: moments that can be the border."""

CUT_RANGE = 0.45
"""Of a period: how far from a job's border a lane's border is searched."""

SILENCE_COST, BYTES_COST, DISTANCE_COST = 0.5, 1.0, 25.0
"""Log likelihoods of a border: per log silence, relative deviation of bytes, period of distance."""

LOCKED = 0.12
"""Of a period: how far the borders of two parts of one job walk apart."""

ORDERED_SHARE = 0.4
"""Of the pairs of a class that have one direction first: a pipeline."""

LOCKED_SHARE, LOCKED_APART = 0.75, 0.95
"""Of the borders of two parts of one job that meet: on common servers, and on others."""

ACTIVE = 0.5
"""Of the steps in which a lane that takes part in them has traffic."""

SUBSTANTIAL = 3e-4
"""Bytes of a NIC, as a share of those of the busiest job, that can be training."""

ANSWERED = 0.1
"""Of the time for which something is under way between two stages of a pipeline, at least."""

SAME_STEPS = 0.04
"""Relative difference of the numbers of parts of two lanes that are of one job."""

DOUBTED = 0.25
"""Weight of the vote of a level that is not the preferred one of its lane."""

FEW_SILENT = 0.5
"""Of the deepest overlap of silences: enough for a border at the end of gradients."""

SOON = 0.25
"""Of a period, after the end of gradients: the next step has begun by then."""

CANDIDATE_SILENCE = 0.25
"""Of the usual silence between steps: shorter ones are no candidates for a border."""

LEAST_BYTES, MOST_BYTES = 0.3, 2.6
"""Bytes that one step can have, in usual steps."""

EXACT_BYTES = 0.001, 0.1
"""Usual relative deviation of the bytes of a step that is believed: headers, and lost records."""

BYTES_CAP = 0.5
"""Relative deviation of bytes beyond which more costs nothing: an evaluation, a lost record."""

BORDER_WORTH = 1.5
"""Most that a silence beyond the threshold of its level is worth, beside BYTES_COST."""

COMPARED_LANES, CANDIDATE_SILENCES = 24, 24
"""Lanes whose bytes are compared, and silences tried for one border of a lane: bounds of time."""

EVALUATION_BYTES = 0.04
"""Of the usual bytes of a step: more than usual is an evaluation before it."""

EQUAL_RATES = 0.12
"""Relative difference of bytes in a step of pairs of one class."""

USUALLY_FIRST = 0.8
"""Of the steps in which one direction of a pair of stages is first."""

TENSOR_JUMP = 2.2
"""Ratio of the distances in time of chains of two tensor groups and of one, at least."""

TENSOR_SIZES = (1, 2, 4, 8)
"""Sizes of tensor groups inside servers."""

WHOLE_STEP, WHOLE_RECORDS = 0.8, 0.4
"""Prior probability that the bytes of a step, or records, hold whole collectives."""

FREQUENT_SIZES = 4
"""Most frequent sizes of records that are evidence."""

UNUSUAL_RANKS, HIDDEN_RANKS = 1.0, 1.5
"""Log odds against ranks that are neither as many as NICs nor fill all servers but one, and against
each hidden rank of a NIC."""

TENSOR_DOUBLING = 0.5
"""Log odds against each doubling of a tensor group."""

FORWARD_SHARE = 1 / 3
"""Of forward and backward pass: a backward pass computes two gradients."""

MOST_HOST_WORK = 0.45
"""Of a period: what the host does between two steps takes less."""

SHORTEST_PAUSE = 0.4
"""Of a period, beyond twice the usual silence: a save or an evaluation lies between two steps."""

UNSURE = 0.3
"""Confidence below which a size is reported as unknown."""

ENDED = 0.8
"""Of the usual bytes of a step: with less, the last step of a recording has not ended."""

LONGEST_RECORD = 1.0
"""Of a step: a typical record that lasts longer holds several steps."""

FEWEST_STEPS, MOSTLY_EQUAL, HARDLY_EQUAL = 4, 0.7, 0.45
"""So few steps have to be equal in most of their bytes; and what is hardly equal is no step."""

PRIOR_ALONE = 0.7
"""Confidence at most of a size that no bytes show, and of pipelines that no gradients confirm."""

EXCHANGES = 0.5
"""Factor of the confidence where each of several members sends to several: no ring, a mesh."""

DEPTH_WORTH, CLEAN_WORTH, GRADIENTS_WORTH = 5.0, 3.0, 1.0
"""Log likelihoods of a border: silence of all lanes, nothing under way, the end of gradients."""

SYSTEMATIC = 5.0
"""Deviation of the bytes of parts, in those of coarser parts, beyond which chance is no reason."""

ALIKE_BYTES = 0.25
"""Relative deviation of the bytes that a lane sends in one step."""

LEAST_FIT, MOSTLY_FIT = 0.75, 0.9
"""Share of the steps in which lanes send as much as usual, for steps to be believed; if few."""

WIDTH_WORTH, LATE_COST = 0.25, 1.0
"""Log likelihoods of a border: log of the silence of all lanes, and period after it begins."""

RIVAL, SURELY_FIT = 0.1, 0.95
"""Votes of a second number of steps, in those of the first, to be tried; where the first fits less."""

BESIDE = 0.5
"""Doubt in a step that holds more than usual, in that in one that lacks as much."""

HEAVY = 0.1
"""Of the bytes of the heaviest lane: lanes with more take part in every step."""

CUT_OFF = 0.5
"""Cost of bytes that the first or last step lacks, in that of bytes that others lack."""
