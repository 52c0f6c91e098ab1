"""Training jobs at work: what their workers compute, when they communicate, and over what.

``job`` and ``replay`` put a job together, ``worker`` and ``player`` are the processes of its ranks,
``schedules``, ``data_parallel``, ``exchanges`` and ``habits`` hold one file a kind of what they do,
and ``collectives`` how groups of ranks exchange data.
"""
