"""How good, and what does it add? Metrics, comparisons, latency."""
