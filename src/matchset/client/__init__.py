"""How does another process ask a server?"""
