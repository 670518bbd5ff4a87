"""How is data stored so that it opens at once and is never half-written?"""
