"""LLMs by Hand: the grader of a course in LLM engineering that is taken by writing the code."""

__version__ = "0.1.0"
