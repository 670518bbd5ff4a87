"""HTTP: what goes in and out of a worker?"""
