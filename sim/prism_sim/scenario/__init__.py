"""The parts of a scenario: models of the cluster and of its jobs.

Each module contains closed, frozen pydantic models of one part; every field documents itself.
``names`` gives the names of servers, NICs and switches of the simulated cluster, and
``source`` reads YAML with the line of every value. The complete scenario, which combines the
parts with the kinds of faults and effects, is in :mod:`prism_sim.loading`.
"""
