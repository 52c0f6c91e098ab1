"""Continuous monitoring: from records that arrive to alerts, on one machine.

A *monitor* takes what a source has, and keeps the records of the last *window* on disk. Whenever
the time of the records has advanced by a *stride*, it diagnoses the window, recognises the jobs and
steps that earlier windows had, and compares the findings with its *incidents*. An incident is one
cause from its first step to its last, in as many windows as it takes; alerts, history and the live
page follow from incidents.

What has happened is in one file, ``state.json``, which is replaced as a whole: what a source has
handed over, which records are kept, and which events were made. So a monitor that was killed
continues where the last of these files ends (:mod:`~llmprism.watch.state_folder`).
"""
