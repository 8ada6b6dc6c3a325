"""Agents: their interface, names, storage and wrappers."""
