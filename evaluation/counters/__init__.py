"""Counters of ports as the only evidence: the worlds of the exam, by interval.

:mod:`~evaluation.counters.measuring` simulates each world of the exam with a collector of counters,
reads them at several intervals, and compares each diagnosis with the truth as for flow records.
:mod:`~evaluation.counters.running` writes the figures of a section of the page of the exam.
"""
