"""Networks: what turns a view of the game into logits and values."""
