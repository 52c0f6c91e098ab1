"""A production cluster: one hour of the counters of all its ports, from traces that are public.

:mod:`~evaluation.production.measuring` reads the traces, and diagnoses the hour, and each rail of
it alone; :mod:`~evaluation.production.page` writes ``results/reference/production.md``.
"""
