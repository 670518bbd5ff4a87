"""matchset: learn from a search log which products answer a query."""
