"""The scenario language: a YAML file that says which world to simulate.

A scenario names a cluster, the training jobs that run in it, what goes wrong with it, and
how the collector sees it. ``models`` holds the language itself (closed, frozen pydantic
models; every field documents itself), ``loading`` turns a file into a model with errors
that name file and line, ``checks`` refuses what is well-formed but makes no sense, and
``names`` says what the servers, NICs and switches of the simulated world are called.
"""
