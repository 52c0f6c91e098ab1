"""Regression suite: holds a few headline figures of many runs to a saved reference.

A suite (``scenarios/regression.yaml``) names scenarios with seeds, methods and a *group*. Each
scenario is simulated once, and diagnosed and scored by each of its methods. Three things are
compared with the reference:

- the *simulation* of each case, by its content: the same seed has to give the same flows and the
  same truth. If it does not, the simulator has changed, and figures of this case are not those of a
  changed method;
- the *headlines* of each method and group: means over the cases of a group, each with a direction
  and a tolerance (:mod:`~prism_sim.studies.regression.headlines`). Only these pass or fail;
- the *raw figures*, all numbers of ``score.json``: shown when asked for, to find the reason.
"""
