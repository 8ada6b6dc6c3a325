"""Features of structured networks: table, cards and hints, from one seat's observations."""
