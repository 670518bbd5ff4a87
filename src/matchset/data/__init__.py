"""Data: what did customers do?"""
