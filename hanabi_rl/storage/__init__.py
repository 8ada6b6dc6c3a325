"""Storage: atomic files, verified arrays, checkpoints, configs as JSON."""
