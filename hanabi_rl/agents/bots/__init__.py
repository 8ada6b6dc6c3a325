"""Players by rule, a file a bot or a family; `scores.json` is what each was measured at."""
