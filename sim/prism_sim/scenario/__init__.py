"""The parts of a scenario: what a file may say about a cluster and about the jobs in it.

Each module holds closed, frozen pydantic models of one part; every field documents itself.
``names`` says what the servers, NICs and switches of the simulated cluster are called, and
``source`` reads YAML with the line of every value. The complete scenario, which brings the
parts together with the kinds of faults and effects, is in :mod:`prism_sim.loading`.
"""
