"""Published figures and hyperparameters, as data."""
