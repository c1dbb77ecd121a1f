"""Evidence about Triton kernels, gathered beside the learner's code without a GPU.

`interpret` watches every launch in Triton's interpreter (bytes, bounds, races, poisoned lanes); `compile` compiles the
launches of a wrapper for a named GPU. Both give plain data that the judge reads through `grader.testing.kernels`.
"""
