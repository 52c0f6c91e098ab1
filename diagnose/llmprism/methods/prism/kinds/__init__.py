"""Kinds of traffic: gradients, activations, and the exchanges of the passes."""
