"""Features: what does a query say?"""
