"""Client: how does another process use a server?"""
