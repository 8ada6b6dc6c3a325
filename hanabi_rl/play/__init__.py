"""Games between policies, and the decks they are played on."""
