"""Studies of many runs: regressions, costs of changes, and dependence on parameters.

A *case* (:mod:`~prism_sim.studies.cases`) is one scenario with one seed, diagnosed by one
method. It is the unit of work; several cases run in parallel processes
(:mod:`~prism_sim.studies.pool`). A key covers everything that its result depends on.
Three kinds of studies use cases:

- :mod:`~prism_sim.studies.regression`: does every scored figure still hold?
- :mod:`~prism_sim.studies.whatif`: what does a fault, or any other change, cost?
- :mod:`~prism_sim.studies.sweep`: how do figures depend on values of a scenario?
"""
