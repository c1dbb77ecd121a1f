"""The trusted process: it holds hidden tests, oracles and reference solutions, and makes the report."""

from grader.judge.judge import Judge
from grader.judge.workers import CannotStart

__all__ = ["CannotStart", "Judge"]
