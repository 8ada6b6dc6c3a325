"""What a structured network is shown: facts of the table, cards and hints, from one seat's own
observations."""
