"""Logs of training jobs, with the truth of each line.

A job has a *plan*: its nodes, its tools with their versions, and the times of its iterations
(``job``). A *scene* collects what a failure lets programs print (``scene``): a *failure kind*
writes the lines of the faulty part (``failures``), and ``spread`` writes what others report. The
``ordinary`` output is the same with and without a failure. ``tools`` has the text of all lines.
``writing`` merges everything that goes into one file in order of time, window by window, so that
memory does not grow with the logs. Plans come from a simulation (``simulated``), or are drawn
(``drawn``).

See docs/logs.md for the folder and the tables.
"""
