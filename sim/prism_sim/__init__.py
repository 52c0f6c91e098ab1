"""Simulate LLM training clusters and score what flow records alone can tell about them."""

__version__ = "0.1.0"
