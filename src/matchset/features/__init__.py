"""Features: how does a query become a sparse vector?"""
