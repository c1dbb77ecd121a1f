"""`python -m grader.worker`: a spawned worker."""

from grader.worker.main import main

main()
