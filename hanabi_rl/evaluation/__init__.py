"""Evaluation: measures, reporting of results, published results."""
