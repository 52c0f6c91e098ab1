"""Pipelines: stages, micro-batches, schedules, and how long passes take."""
