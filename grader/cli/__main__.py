"""`python -m grader.cli`, where the console command is not on the path."""

from grader.cli import main

main()
