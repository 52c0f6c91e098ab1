"""Stops: jobs that did not finish a step, and who stopped first."""
