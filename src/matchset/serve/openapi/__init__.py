"""OpenAPI: how does a server describe itself?"""
