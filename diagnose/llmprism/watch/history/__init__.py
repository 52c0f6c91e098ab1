"""What a monitor found, for months: steps, layouts and events as Parquet, a folder a day.

``recording`` writes the files of each commit, with names that follow from its number, so work that
a crash cut off is done again in the same files. ``compaction`` merges the files of a day.
``questions`` answers with DuckDB; any other engine reads the files as well
(``history/findings/day=2026-11-26/*.parquet``).
"""
