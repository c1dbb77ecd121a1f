"""Hidden tests: causal self-attention with padding. Oracle: F.scaled_dot_product_attention in float64."""

import torch
from torch import nn
from torch.nn import functional as F

from grader.testing import booleans, close, equal, given, integers, points, require, sampled_from


def random_weights(d_model, d_head, bias, gain=2.0):
    """A state dict of the four projections, in float64; gain 1 is nn.Linear's own initial size."""
    layers = {name: nn.Linear(d_model, d_head, bias=bias) for name in ("q_proj", "k_proj", "v_proj")}
    layers["out_proj"] = nn.Linear(d_head, d_model, bias=bias)
    return {
        f"{name}.{kind}": gain * parameter.detach().double()
        for name, layer in layers.items()
        for kind, parameter in layer.named_parameters()
    }


def module(submission, weights, causal=True, dtype=torch.float64):
    """The learner's module with these weights."""
    d_head, d_model = weights["q_proj.weight"].shape
    attention = submission.SelfAttention(d_model, d_head, causal=causal, bias="q_proj.bias" in weights)
    attention.to(dtype)
    # Not strict: a superfluous buffer is the business of state_dict_names alone.
    attention.load_state_dict({name: w.to(dtype) for name, w in weights.items()}, strict=False)
    return attention


def oracle(weights, x, padding=None, causal=True):
    """The same in float64, with the mask spelt out."""
    batch, t, _ = x.shape
    allowed = torch.ones(batch, t, t, dtype=torch.bool)
    if causal:
        allowed = allowed.tril()
    if padding is not None:
        allowed = allowed & ~padding[:, None, :]
    blind = ~allowed.any(-1, keepdim=True)

    def project(name, y):
        return F.linear(y, weights[f"{name}.weight"].double(), weights.get(f"{name}.bias"))

    x = x.double()
    q, k, v = (project(name, x) for name in ("q_proj", "k_proj", "v_proj"))
    out = project("out_proj", F.scaled_dot_product_attention(q, k, v, attn_mask=allowed | blind))
    return out if padding is None else out.masked_fill(padding[:, :, None], 0.0)


def padded(sequences, length, side):
    """A batch (B, length, d) with random numbers at the padding positions, and its mask (True = padding)."""
    x = torch.randn(len(sequences), length, sequences[0].shape[-1], dtype=sequences[0].dtype)
    mask = torch.ones(len(sequences), length, dtype=torch.bool)
    for row, sequence in enumerate(sequences):
        n = len(sequence)
        real = slice(length - n, length) if side == "left" else slice(n)
        x[row, real] = sequence
        mask[row, real] = False
    return x, mask


@points(1)
def test_state_dict_names(submission):
    """The state dict holds q_proj, k_proj, v_proj and out_proj, weights (and biases), and nothing else."""
    for bias in (False, True):
        expected = {name: tuple(w.shape) for name, w in random_weights(6, 4, bias).items()}
        state = submission.SelfAttention(6, 4, bias=bias).state_dict()
        equal({name: tuple(w.shape) for name, w in state.items()}, expected, what=f"names and shapes with bias={bias}")
    state = submission.SelfAttention(6, 4).state_dict()
    require("q_proj.bias" not in state, "bias is False by default", got=sorted(state))


@points(3)
@given(
    batch=integers(1, 3),
    t=integers(1, 17),
    d_model=integers(1, 20),
    d_head=integers(1, 16),
    causal=booleans(),
    bias=booleans(),
    mask=sampled_from(("none", "all False")),
    seed=integers(0, 2**32 - 1),
    examples=25,
)
def test_matches_sdpa(submission, batch, t, d_model, d_head, causal, bias, mask, seed):
    """float64 against F.scaled_dot_product_attention with the same weights: causal or not, bias or not, T = 1 too."""
    torch.manual_seed(seed)
    weights = random_weights(d_model, d_head, bias)
    x = torch.randn(batch, t, d_model, dtype=torch.float64)
    padding = None if mask == "none" else torch.zeros(batch, t, dtype=torch.bool)
    got = module(submission, weights, causal)(x, padding)
    close(got, oracle(weights, x, padding, causal), rtol=1e-10, dtype=torch.float64)


@points(1)
def test_any_length(submission):
    """The same module takes sequences of 1, 5, 129 and 1030 tokens; causal is the default."""
    weights = random_weights(6, 4, bias=False)
    attention = submission.SelfAttention(6, 4)
    attention.to(torch.float64)
    attention.load_state_dict(weights, strict=False)
    for t in (5, 129, 1, 1030):
        x = torch.randn(1, t, 6, dtype=torch.float64)
        close(attention(x), oracle(weights, x), rtol=1e-10)


@points(2)
def test_no_future_leak(submission):
    """The gradient of output t with respect to x[s] is exactly 0 for every s > t, and is there for every s <= t."""
    t_max = 5
    attention = module(submission, random_weights(6, 4, bias=True))
    for t in range(t_max):
        x = torch.randn(2, t_max, 6, dtype=torch.float64, requires_grad=True)
        loss = (attention(x)[0, t] * torch.randn(6, dtype=torch.float64)).sum()
        (grad,) = torch.autograd.grad(loss, x)
        size = grad.abs().amax(-1)
        require(
            not size[0, t + 1 :].any(),
            f"output {t} depends on a later position: the largest |gradient| at each position of x is",
            got=size[0],
        )
        require(not size[1].any(), "one sequence of the batch depends on another", got=size)
        require(
            bool((size[0, : t + 1] > 0).all()),
            f"output {t} does not depend on every position up to {t}: the largest |gradient| at each position of x is",
            got=size[0],
        )


@points(2)
def test_padding_content_is_irrelevant(submission):
    """Other numbers at padding positions of x, 1e4 included, leave all real outputs as they were."""
    mask = torch.tensor(
        [
            [False, False, True, True, True],
            [True, True, False, False, False],
            [False, True, False, True, False],
        ]
    )
    for causal in (True, False):
        attention = module(submission, random_weights(6, 4, bias=True), causal)
        x = torch.randn(3, 5, 6, dtype=torch.float64)
        first = attention(x, mask)
        for filling in (0.0, 1e4, -1e4, torch.randn(6, dtype=torch.float64)):
            other = torch.where(mask[:, :, None], torch.as_tensor(filling, dtype=torch.float64), x)
            close(attention(other, mask), first.detach(), rtol=1e-12)


@points(2)
def test_padded_equals_alone(submission):
    """A batch of lengths 1, 3 and 7, padded left or right, gives what each sequence gives alone."""
    for causal in (True, False):
        for side in ("right", "left"):
            weights = random_weights(6, 4, bias=True)
            attention = module(submission, weights, causal)
            sequences = [torch.randn(n, 6, dtype=torch.float64) for n in (1, 3, 7)]
            x, mask = padded(sequences, 9, side)
            got = attention(x, mask)
            close(got, oracle(weights, x, mask, causal), rtol=1e-10, what=f"padded {side}")
            for row, sequence in enumerate(sequences):
                alone = attention(sequence[None])
                close(got[row][~mask[row]], alone[0].detach(), rtol=1e-10, what=f"padded {side}, sequence {row}")


@points(2)
@given(
    t=integers(1, 12), share=sampled_from((0.2, 0.5, 0.9)), causal=booleans(), seed=integers(0, 2**32 - 1), examples=25
)
def test_padding_anywhere(submission, t, share, causal, seed):
    """Padding in any place: real tokens attend to real keys only, padding positions are 0 in spite of biases."""
    torch.manual_seed(seed)
    weights = random_weights(5, 3, bias=True)
    x, mask = torch.randn(2, t, 5, dtype=torch.float64), torch.rand(2, t) < share
    got = module(submission, weights, causal)(x, mask)
    close(got, oracle(weights, x, mask, causal), rtol=1e-10)


@points(3)
def test_finite_everywhere(submission):
    """Left padding, a whole sequence of padding: outputs there 0, gradients finite and right, none reaches padding."""
    weights = random_weights(6, 4, bias=True)
    mask = torch.tensor([[True, True, True, False, False], [True] * 5, [False] * 5])
    for causal in (True, False):
        attention = module(submission, weights, causal)
        x = torch.randn(3, 5, 6, dtype=torch.float64, requires_grad=True)
        direction = torch.randn(3, 5, 6, dtype=torch.float64)
        out = attention(x, mask)
        close(out, oracle(weights, x.detach(), mask, causal), rtol=1e-10)
        (out * direction).sum().backward()

        twin = {name: w.clone().requires_grad_() for name, w in weights.items()}
        x_twin = x.detach().clone().requires_grad_()
        (oracle(twin, x_twin, mask, causal) * direction).sum().backward()
        close(x.grad, x_twin.grad, rtol=1e-9, by="tensor", what="the gradient of x")
        require(not x.grad[mask].any(), "a gradient reaches padding positions of x", got=x.grad)
        for name, parameter in attention.named_parameters():
            # atol: k_proj's bias shifts all scores of a row alike, so its gradient is 0 up to rounding.
            close(
                parameter.grad,
                twin[name].grad,
                rtol=1e-9,
                atol=1e-12,
                by="tensor",
                what=f"the gradient of {name}",
            )


@points(2)
def test_low_precision(submission):
    """bfloat16 and float32: the dtype is kept, the values are right, also for scores of +-3e4, which give no NaN."""
    for dtype, rtol in ((torch.bfloat16, 4e-2), (torch.float32, 1e-4)):
        weights = {name: w.to(dtype) for name, w in random_weights(32, 16, bias=False, gain=1.0).items()}
        x = torch.randn(2, 40, 32).to(dtype)
        mask = torch.zeros(2, 40, dtype=torch.bool)
        mask[0, :9] = True
        mask[1, 30:] = True
        attention = module(submission, weights, dtype=dtype)
        close(attention(x), oracle(weights, x), rtol=rtol, dtype=dtype)
        close(attention(x, mask), oracle(weights, x, mask), rtol=rtol, dtype=dtype)

    # q . k / sqrt(16) = +-(87.0 ** 2) * 16 / 4, about 3e4; exact in bfloat16 as well, so nothing but the mask decides.
    signs = torch.where(torch.rand(3, 6, 16) < 0.5, -1.0, 1.0)
    signs[:, 3] = -signs[:, 2]
    mask = torch.tensor([[False] * 6, [True, True, False, False, False, True], [True] * 6])
    for dtype, rtol in ((torch.bfloat16, 4e-2), (torch.float64, 1e-10)):
        x = signs.to(dtype).requires_grad_()
        for sign in (1.0, -1.0):
            weights = {"q_proj.weight": 87.0 * torch.eye(16), "k_proj.weight": sign * 87.0 * torch.eye(16)}
            weights |= {"v_proj.weight": torch.randn(16, 16), "out_proj.weight": torch.randn(16, 16)}
            weights = {name: w.to(dtype) for name, w in weights.items()}
            attention = module(submission, weights, dtype=dtype)
            for padding in (None, mask):
                out = attention(x, padding)
                require(bool(out.isfinite().all()), "scores of +-3e4 give NaN or inf in the output", got=out)
                close(out, oracle(weights, x.detach(), padding), rtol=rtol, dtype=dtype, what="scores of +-3e4")
                (grad,) = torch.autograd.grad(out.float().sum(), x)
                require(bool(grad.isfinite().all()), "scores of +-3e4 give NaN or inf in the gradient of x", got=grad)


@points(1)
def test_permutation_equivariance(submission):
    """Without causal the order of the tokens means nothing: permuting them permutes the outputs."""
    attention = module(submission, random_weights(6, 4, bias=True), causal=False)
    x = torch.randn(2, 9, 6, dtype=torch.float64)
    order = torch.randperm(9)
    close(attention(x[:, order]), attention(x)[:, order].detach(), rtol=1e-10)
