"""From a command line to a run, or to many."""
