"""The parts of `grader.worker.forbid`: one file for each way in which an operation can be refused."""
