"""Algorithms, one file per algorithm, and the training loop."""
