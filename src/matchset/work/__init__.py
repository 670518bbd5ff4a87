"""Who does the work of a training, in which order, and where are its results kept?"""
