"""Results as text, JSON and plots."""
