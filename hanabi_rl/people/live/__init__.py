"""A seat among people: an agent as a bot account of hanab.live, or of a server of that kind."""
