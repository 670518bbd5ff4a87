"""Command line: how does a person call it?"""

from matchset.cli.app import main

__all__ = ["main"]
