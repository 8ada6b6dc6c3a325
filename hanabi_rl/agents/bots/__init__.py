"""Rule-based bots, one file per bot or family; `scores.json` has their scores."""
