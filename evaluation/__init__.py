"""The evaluation of methods of diagnosis: drawn worlds, runs, figures, and pages.

One command, ``python -m evaluation NAME``, makes one thing again. The *exam*
(:mod:`evaluation.exam`) grades methods on families of worlds, some of which nobody may look at one
by one.
"""
