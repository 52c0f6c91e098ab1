"""The exam: methods of diagnosis on worlds of families, of which some are held out.

:mod:`~evaluation.exam.worlds` draws and simulates, :mod:`~evaluation.exam.measuring` diagnoses and
compares, :mod:`~evaluation.exam.measures` defines figures, :mod:`~evaluation.exam.figures` computes
them with intervals, :mod:`~evaluation.exam.page` writes them, and :mod:`~evaluation.exam.log` notes
every run of the families for the exam. :mod:`~evaluation.exam.paired` compares two results on the
same worlds.
"""
