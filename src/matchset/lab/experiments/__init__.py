"""Experiments: how do matchers compare on one log, and what do pruning and the beam cost?"""
