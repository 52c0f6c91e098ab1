"""The live page of a monitor: what it sees now, without reload.

``snapshot`` makes plain values of what a window shows, ``application`` serves them to browsers and
metrics to Prometheus, and ``serving`` runs it beside the monitor, in a thread. The page has no
build step and loads nothing from outside.
"""
