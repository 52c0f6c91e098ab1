"""The complete scenario, and the code that loads it from a YAML file.

``scenario`` combines everything that a file may contain. ``loader`` turns a file into a scenario,
or into a list of errors with file and line. ``checks`` refuses values that are well-formed but
impossible, and jobs that do not fit into the cluster. ``writing`` writes a scenario as YAML.
"""
