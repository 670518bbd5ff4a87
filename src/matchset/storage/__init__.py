"""How is a thing kept on disk so that it opens at once and is never half-written?"""
