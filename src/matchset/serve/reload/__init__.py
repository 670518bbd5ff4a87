"""Reload: how does a server switch to another model without a restart?"""
