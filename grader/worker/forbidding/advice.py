"""What to write instead, by the last part of the forbidden name."""

from __future__ import annotations

_INSTEAD = {
    "softmax": "write it yourself, with exp, sums and a maximum",
    "log_softmax": "write it yourself, from a maximum, exp, a sum and log",
    "logsumexp": "write it yourself: the maximum plus the log of the sum of exp(x - maximum)",
    "logaddexp": "write it yourself: the larger plus log1p(exp(-difference))",
    "log_expit": "write it yourself, so that neither side overflows",
    "scaled_dot_product_attention": "write it yourself, from matrix products and a softmax",
    "flex_attention": "write the attention yourself, from matrix products and a mask",
    "create_block_mask": "find the blocks yourself, from the mask function",
    "MultiheadAttention": "write it yourself, from projections, a reshape into heads and a softmax",
    "multi_head_attention_forward": "write it yourself, from projections, a reshape into heads and a softmax",
    "TransformerEncoderLayer": "build the layer yourself from attention, norms and the feed-forward part",
    "TransformerDecoderLayer": "build the layer yourself from attention, norms and the feed-forward part",
    "cross_entropy": "write it yourself: the logsumexp minus the target's logit",
    "CrossEntropyLoss": "write it yourself: the logsumexp minus the target's logit",
    "nll_loss": "write it yourself: pick the target's entry and average",
    "matmul": "the product is what you are to write",
    "mm": "the product is what you are to write",
    "bmm": "the product is what you are to write",
    "mv": "the product is what you are to write",
    "einsum": "the product is what you are to write",
    "linear": "the product is what you are to write",
    "contiguous": "work with the strides instead of copying",
    "cumsum": "the running sum is what you are to write",
    "repeat_interleave": "share the tensor between the heads instead of copying it (a view, or an index)",
    "repeat": "share the tensor instead of copying it (expand, or an index)",
    "item": "keep the value on the device",
    "tolist": "keep the values on the device",
    "cpu": "keep the tensor on the device",
    "exp": "compute it inside the kernel",
    "erf": "compute it inside the kernel",
    "rsqrt": "compute it inside the kernel",
    "sum": "compute it inside the kernel",
    "mean": "compute it inside the kernel",
    "gather": "read through the table inside the kernel",
    "index_select": "read through the table inside the kernel",
    "grad": "derive the gradient and write it out",
    "multinomial": "draw from the uniform numbers that you are given",
    "choice": "draw from the uniform numbers that you are given",
    "inv": "use a Cholesky factor or a triangular solve",
    "inverse": "use a Cholesky factor or a triangular solve",
    "pinv": "solve the regularised system, or use the SVD",
    "svd": "use matrix products only",
    "qr": "use matrix products only",
    "clip_grad_norm_": "compute the norm over all parameters and scale the gradients yourself",
    "checkpoint": "write it yourself, with an autograd Function that runs the forward again",
    "vmap": "write the loop over vector-Jacobian products yourself",
    "eval": "parse the text yourself",
    "exec": "parse the text yourself",
    "literal_eval": "parse the text yourself",
    "grader": "what you need is in the file that you were given",
    "setrecursionlimit": "use a loop with a stack of your own",
    "stack_size": "use a loop with a stack of your own",
    "remove": "it looks through the whole container: keep something that finds the element at once",
    "index": "it looks through the whole container: keep something that finds the element at once",
    "insert": "it moves everything behind it: choose a structure that does not",
}

_MODULES = {
    "torch": "this exercise is to be solved without it",
    "numpy": "this exercise is to be solved with plain Python",
    "scipy": "this exercise is to be solved without it",
    "optim": "write the update rule yourself",
    "distributed": "use the communicator that you are given",
    "re": "scan the text yourself",
    "regex": "scan the text yourself, or use what the exercise names",
}


def advice_for(name: str) -> str:
    """Ends the sentence "... is not allowed in this exercise: ...".

    >>> advice_for("torch.softmax")
    'write it yourself, with exp, sums and a maximum'
    """
    last = name.rpartition(".")[2]
    if name in ("torch", "numpy", "scipy", "re", "regex", "torch.optim", "torch.distributed"):
        return _MODULES[last]
    return _INSTEAD.get(last) or _INSTEAD.get(last.strip("_")) or "write it yourself"
