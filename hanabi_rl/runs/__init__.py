"""A run's folder, its config, and what is written while it goes on."""
