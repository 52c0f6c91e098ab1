"""Passes: how long the stages of a pipeline compute, and how far they came."""
