"""Command line: how does a person call it?"""
