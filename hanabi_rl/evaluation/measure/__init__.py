"""Measures of recorded games, each with a confidence interval."""
