"""A diagnoser of failed training jobs that sees only their logs.

From text to answers: ``reading`` finds files and cuts them into lines, ``records`` takes a line
apart, ``catalogue`` knows kinds of lines, ``events`` joins lines that belong together, ``roles``
finds which event is the cause, ``causes`` names it, and ``diagnosis`` puts one answer together.
Nothing from a log is executed or rendered as markup.
"""
