"""How is it learned? Label vectors, tree, negatives, linear layers, and the recipe that joins them."""
