"""Networks: from observations or features to logits and values."""
