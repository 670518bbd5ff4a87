"""How is it learned? Label vectors, tree, negatives, layers, and the recipe that joins them."""
