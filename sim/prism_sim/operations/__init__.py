"""Months of a training job at the level of failures: what do policies of operation bring?

No flows are simulated here. Between two failures the job's work follows in closed form, so that
a quarter of ten thousand GPUs takes a fraction of a second. AIReSim
(https://github.com/karthikp-ubc/airesim) is the nearest open work; it has no checkpoints and
lost work, no delay of detection, no slow failures, and no measured diagnoser.
"""
