"""Learning: how does training data become a tree of classifiers?"""
