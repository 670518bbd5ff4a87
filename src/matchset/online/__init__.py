"""Online: who sees which matcher in an experiment, and what is recorded of it?"""
