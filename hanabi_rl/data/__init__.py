"""Recorded games: container, files, third-party formats, splits."""
