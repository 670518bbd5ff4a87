"""Serving: how does a shop call it?"""
