"""Studies with people: design, participants, pages, matching, export."""
