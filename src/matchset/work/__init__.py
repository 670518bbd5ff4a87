"""Who does the work of a training, and where are its results kept?"""
