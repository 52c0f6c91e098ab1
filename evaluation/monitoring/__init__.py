"""A monitor beside one diagnosis of the same records, on worlds of the families for development.

The records of a world arrive in files, in the order in which they end, and the monitor diagnoses
windows of half of the recording. Its incidents should be the findings of one diagnosis of all, and
its steps should have the numbers of these.
"""
