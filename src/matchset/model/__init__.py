"""What was learned? The tree, its weights, and search in them."""
