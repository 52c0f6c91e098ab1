"""LLM training jobs, seen from the network.

``llmprism`` reads flow records and the physical topology, and nothing else, and
answers: which addresses form a job, which pairs carry data-parallel and which
pipeline-parallel traffic, when did each rank's steps begin and end, and what was slow.
It works alone on real data and never imports the simulator.
"""

__version__ = "0.1.0"
