"""DSSM: which titles lie near the query, in a space learned from the log?"""
