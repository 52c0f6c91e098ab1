"""A cluster over months at the level of jobs: who waits, what is used, and how jobs end.

The statistics are those of Acme (NSDI'24) and of the public summary of its trace
(https://github.com/InternLM/AcmeTrace, ``cluster_summary.csv``).
"""
