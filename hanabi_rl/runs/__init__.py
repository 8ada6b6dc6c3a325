"""Runs: folder, config, metrics, checkpoints and signals."""
