"""Arithmetic that knows nothing of flows: grouped rows, graphs, change points."""
