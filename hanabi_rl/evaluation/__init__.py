"""Evaluation: measures, reports and published results."""
