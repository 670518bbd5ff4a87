"""Online: does a matcher sell more? Experiments with customers, and what they show."""
