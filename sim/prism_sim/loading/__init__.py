"""The complete scenario, and the way from a YAML file to it.

``scenario`` brings together all that a file may say. ``loader`` turns a file into a scenario,
or into a list of errors that name file and line. ``checks`` refuses what is well-formed but
makes no sense, ``capacity`` finds out whether the jobs fit into the cluster, and ``writing``
writes a scenario out again.
"""
