"""Measures of Overcooked games: interdependence, event features, unit tests, prediction."""
