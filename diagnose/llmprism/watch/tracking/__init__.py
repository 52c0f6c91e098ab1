"""Learn once, then follow: the steps of known jobs, without a new diagnosis.

A diagnosis of a window shows which connections of a job move the same bytes in every step
(:mod:`~.patterns`). From then on, the bytes of these connections count its steps
(:mod:`~.progress`), and a cumulative sum tells whether steps become longer or shorter. A job is
diagnosed again when it changes, and seldom while it does not (:mod:`~.tracker`).
"""
