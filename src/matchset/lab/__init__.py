"""What is measured and simulated: a made-up shop, experiments, their report, heavier baselines."""
