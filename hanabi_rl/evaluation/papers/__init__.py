"""Published figures, as data."""
