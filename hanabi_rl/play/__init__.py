"""Games between policies, and their decks."""
