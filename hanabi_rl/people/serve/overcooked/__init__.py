"""Overcooked in the browser: a person and an agent in real time, and replays."""
