"""One file an algorithm: its config, what differs, what it reports; and the loop that runs them."""
