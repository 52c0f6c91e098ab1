"""The method of L4 (arXiv 2503.20263): failures by comparing events over jobs, nodes and time.

Its code is not published. What the paper leaves open is a field of ``method.Settings``.
``counting`` makes Drain's templates of all lines, ``comparisons`` compares their counts,
``library`` knows confirmed cases, and ``method`` puts an answer together.
"""
