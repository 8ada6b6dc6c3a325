"""Thinking at the time of play: single-agent search on top of an agent's policy."""
