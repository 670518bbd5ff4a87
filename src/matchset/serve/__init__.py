"""Serve: how do other programs use a model over HTTP?"""
