"""What programs print whether a job fails or not: the start, iterations, pauses, calls, noise.

Lines of which there are many are made for a window of time (:class:`~.bulk.Bulk`); the others are
:class:`~prism_sim.logs.scene.Written` lines.
"""
