"""Twins: simulations of real captures, and how alike the two are."""
