"""Studies with human participants: design, matching, pages, games, export."""
