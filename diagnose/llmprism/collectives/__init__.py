"""Diagnosis from what communication libraries write of their collectives.

Readers give one table of operations (``reading``). Communicators that share processes are a job,
and what repeats in a communicator is a step (``structure``). All ranks end a collective together,
so the rank that joined last has the shortest time (``operations``): how long each rank waited is
what the judge of the method ``prism`` gets (``judging``). The tables are those of a diagnosis of
flows (``diagnosing``).
"""
