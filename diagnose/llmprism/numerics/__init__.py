"""Numerical methods that do not depend on flows: grouped rows, graphs, change points."""
