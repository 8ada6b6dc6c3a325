"""From recorded games to numbers with intervals."""
