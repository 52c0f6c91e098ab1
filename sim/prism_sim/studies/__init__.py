"""Many runs for one question: has anything become worse, what does it cost, how does it depend?

A *case* (:mod:`~prism_sim.studies.cases`) is one scenario with one seed, diagnosed by one
method: the unit that is run, in a process of its own where there are several
(:mod:`~prism_sim.studies.pool`), and known by a key of everything that its result rests on.
Three questions are put to cases:

- :mod:`~prism_sim.studies.regression`: does every scored figure still hold?
- :mod:`~prism_sim.studies.whatif`: what does a fault, or any other change, cost?
- :mod:`~prism_sim.studies.sweep`: how do figures depend on values of a scenario?
"""
