"""Recorded games: the one record of them, files, formats of other people, splits."""
