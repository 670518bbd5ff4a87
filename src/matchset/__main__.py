"""`python -m matchset`: how is the command line called where its script is not on the path?"""

from matchset.cli.commands import main

main()
