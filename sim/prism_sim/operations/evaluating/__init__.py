"""Evaluation of a model on many data sets: how long does it take under several schedulers?

The problem and the remedies are Acme's (NSDI'24): trials of one node share its link to the
storage, and hold a GPU while they compute metrics on a CPU.
"""
