"""What answers a query? One matcher per module, their base and their registry."""
