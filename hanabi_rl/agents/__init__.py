"""Players: the one interface of them all, their names, where they are stored, what wraps them."""
