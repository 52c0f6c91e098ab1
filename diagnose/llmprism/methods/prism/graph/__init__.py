"""The step of a job as a graph with durations.

Nodes are operations at ranks; an edge leads from what a rank waited for to what it does next.
Edges carry computation (from the latest parent to a join) or a transfer (from the last join of an
operation to its end). What remains is waiting, and waiting is never slowness.
"""
