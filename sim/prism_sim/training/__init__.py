"""Running training jobs: computation and communication of their workers.

``job`` and ``replay`` assemble a job, ``worker`` and ``player`` are the processes of its ranks.
``schedules``, ``data_parallel``, ``exchanges`` and ``habits`` contain one file per kind,
and ``collectives`` the algorithms by which groups of ranks exchange data.
"""
