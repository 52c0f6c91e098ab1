"""Rings: which rank of a collective is late."""
