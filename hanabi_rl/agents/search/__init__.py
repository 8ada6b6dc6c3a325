"""Search at play time: single-agent search on top of an agent's policy."""
