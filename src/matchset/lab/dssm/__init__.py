"""DSSM: which titles are near the query in a vector space learned from the log?"""
