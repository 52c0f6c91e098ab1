"""Servers, NICs, switches, routes, and the fabric in which they share bandwidth."""
