"""Command line: how does a person call it?"""

from matchset.cli.commands import main

__all__ = ["main"]
