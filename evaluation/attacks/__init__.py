"""Attacks: what others put into folders, files and messages, and what our programs do with it.

``foreign`` puts files of others into a folder, ``programs`` has all programs that write into one,
``damaged`` damages what is read, ``targets`` says what must hold for both. ``fuzzing`` draws from
them for some time with a new seed, and ``table`` repeats single attacks and counts the good ones.
"""
