"""Command lines to runs: flags, presets, sweeps, clusters, comparisons."""
