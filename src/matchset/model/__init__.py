"""What was learned? The tree and its weights, inverted indexes, and the products."""
