"""Report: how do people read what the experiments found?"""
