"""Hidden tests: DPO training. Oracle: every sequence scored alone and unpadded, in float64, with AdamW by hand."""

import math
import random

import torch
from torch.nn import functional as F

from grader.testing import close, equal, points, require

KEYS = {"loss", "rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies"}
EOS = 9


class Desk:
    """Makes policies and notes how they are called. Lives beside the submission; the oracle has one of its own."""

    def __init__(self):
        self.calls = []  # for each forward pass: (trains, in train mode, rows, columns)

    def policy(self, width, seed, dtype="float64", dropout=0.0, drift=0.0, noise_before=0):
        """A causal model of 10 tokens. `drift` is added to logit 3, in train mode only: a dropout that can be
        predicted. `noise_before` = P adds large numbers to the logits of the first P - 1 places."""
        import torch
        from torch import nn

        desk = self

        class CausalMean(nn.Module):
            """Each place sees its own embedding and the mean of all embeddings up to it."""

            def __init__(self):
                super().__init__()
                self.embed = nn.Embedding(10, width)
                self.mix = nn.Linear(2 * width, width)
                self.dropout = nn.Dropout(dropout)
                self.head = nn.Linear(width, 10)

            def forward(self, ids):
                trains = torch.is_grad_enabled() and any(p.requires_grad for p in self.parameters())
                desk.calls.append((trains, self.training, *ids.shape))
                x = self.embed(ids)
                mean = x.cumsum(1) / torch.arange(1, ids.shape[1] + 1)[:, None]
                logits = self.head(self.dropout(torch.tanh(self.mix(torch.cat([x, mean], dim=-1)))))
                if self.training:
                    logits = logits + drift * (torch.arange(10) == 3)
                if noise_before > 1:
                    far = 50.0 * torch.sin(torch.arange(10 * (noise_before - 1))).view(-1, 10)
                    logits = torch.cat([logits[:, : noise_before - 1] + far, logits[:, noise_before - 1 :]], dim=1)
                return logits

        model = CausalMean().to(getattr(torch, dtype))
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                scale = (
                    0.1 if name.endswith("bias") else 1.0 if name.startswith("embed") else parameter.shape[1] ** -0.5
                )
                parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))
        return model

    def log(self):
        return [list(call) for call in self.calls]

    def requires_grad(self, model):
        return [name for name, parameter in model.named_parameters() if parameter.requires_grad]

    def in_train_mode(self, model):
        return [name or "the model itself" for name, module in model.named_modules() if module.training]

    def move(self, model):
        import torch

        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(1.0)


def state_of(model):
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def logp(model, prompt, completion):
    """log p(completion | prompt), of one sequence without padding."""
    rows = model(torch.tensor([prompt + completion]))[0].log_softmax(-1)
    return sum(rows[len(prompt) + i - 1, token] for i, token in enumerate(completion))


def oracle(policy, pairs, beta, lr, epochs, batch_size, nll_coef, generator):
    """Trains the oracle's own policy; the log."""
    policy.eval()
    with torch.no_grad():
        ref = [(float(logp(policy, p, c)), float(logp(policy, p, r))) for p, c, r in pairs]
    policy.train()
    parameters = list(policy.parameters())
    first, second = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    history = []
    for _ in range(epochs):
        order = torch.randperm(len(pairs), generator=generator).tolist()
        for start in range(0, len(pairs), batch_size):
            chosen, rejected, rewards_c, rewards_r, tokens = [], [], [], [], 0
            for i in order[start : start + batch_size]:
                prompt, c, r = pairs[i]
                chosen.append(logp(policy, prompt, c))
                rejected.append(logp(policy, prompt, r))
                rewards_c.append(beta * (chosen[-1] - ref[i][0]))
                rewards_r.append(beta * (rejected[-1] - ref[i][1]))
                tokens += len(c)
            margins = torch.stack(rewards_c) - torch.stack(rewards_r)
            loss = F.softplus(-margins).mean() - nll_coef * torch.stack(chosen).sum() / tokens
            gradients = torch.autograd.grad(loss, parameters)
            t = len(history) + 1
            with torch.no_grad():
                for p, g, m, v in zip(parameters, gradients, first, second, strict=True):
                    m.mul_(0.9).add_(0.1 * g)
                    v.mul_(0.999).add_(0.001 * g * g)
                    p.sub_(lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8))
            history.append(
                {
                    "loss": float(loss.detach()),
                    "rewards/chosen": float(torch.stack(rewards_c).detach().mean()),
                    "rewards/rejected": float(torch.stack(rewards_r).detach().mean()),
                    "rewards/margins": float(margins.detach().mean()),
                    "rewards/accuracies": float((margins.detach() > 0).double().mean()),
                }
            )
    return history


def random_pairs(rng, n, prompt_length=None, longest=7):
    """Prompts and completions of all lengths, every token among them; completions end with EOS."""
    pairs = []
    for _ in range(n):
        prompt = [rng.randrange(10) for _ in range(prompt_length or rng.randint(1, 5))]
        chosen, rejected = ([rng.randrange(10) for _ in range(rng.randrange(longest))] + [EOS] for _ in range(2))
        if chosen == rejected:
            rejected = [0, *rejected]
        pairs.append((prompt, chosen, rejected))
    return pairs


def share_pairs(seed, n):
    """The completion with the larger share of token 5 is the chosen one."""
    rng = random.Random(seed)

    def completion():
        share = 0.8 * rng.random()
        others = [0, 1, 2, 3, 4, 6, 7, 8]
        return [5 if rng.random() < share else rng.choice(others) for _ in range(rng.randint(3, 9))]

    pairs = []
    while len(pairs) < n:
        prompt, a, b = [rng.randrange(8) for _ in range(rng.randint(1, 4))], completion(), completion()
        shares = [x.count(5) / len(x) for x in (a, b)]
        if shares[0] != shares[1]:
            chosen, rejected = (a, b) if shares[0] > shares[1] else (b, a)
            pairs.append((prompt, [*chosen, EOS], [*rejected, EOS]))
    return pairs


def train(submission, policy, pairs, pad_id, seed, **config):
    """(reference, log), and the log's form."""
    generator = torch.Generator().manual_seed(seed)
    result = submission.dpo_train(policy, pairs, pad_id, submission.DPOConfig(**config), generator)
    require(isinstance(result, tuple) and len(result) == 2, "not (reference, log)", got=result)
    reference, history = result
    batch_size, epochs = config.get("batch_size", 16), config.get("epochs", 5)
    require(isinstance(history, list), "the log is not a list", got=history)
    equal(len(history), epochs * math.ceil(len(pairs) / batch_size), "entries in the log, one a step")
    for entry in history:
        equal(set(entry), KEYS, "keys of a log entry")
        require(all(type(x) is float for x in entry.values()), "not a dict of floats", got=entry)
    return reference, history


def compare(history, expected, tolerance=1e-6):
    for step, (got, want) in enumerate(zip(history, expected, strict=True)):
        for key in sorted(KEYS):
            # At the first step all margins are 0 up to rounding, of either sign.
            if key != "rewards/accuracies" or step > 0:
                close(got[key], want[key], rtol=tolerance, atol=tolerance, what=f"{key} of step {step}")


@points(2)
def test_starts_at_log_2(submission):
    """The first step's loss is log 2 and its margin 0, whatever beta and the batch size."""
    desk = submission.prop(Desk)
    for seed, beta, batch_size in ((0, 0.1, 16), (1, 2.0, 5)):
        pairs = random_pairs(random.Random(seed), 11)
        _, history = train(submission, desk.policy(8, seed), pairs, 0, seed, beta=beta, batch_size=batch_size, epochs=1)
        close(history[0]["loss"], 0.693147, atol=1e-5, what="loss of the first step")
        close(history[0]["rewards/margins"], 0.0, atol=1e-5, what="margin of the first step")


@points(1)
def test_equal_rewards(submission):
    """A policy that is sure of EOS has nothing to learn from answers of EOS alone: accuracy 0 at every step."""
    desk = submission.prop(Desk)
    policy = desk.policy(4, 3)
    sure = {name: torch.zeros_like(value) for name, value in state_of(policy).items()}
    sure["head.bias"][EOS] = 1000.0  # log p(EOS) is exactly 0, everywhere
    policy.load_state_dict(sure)
    pairs = [([1, 2], [EOS], [EOS, EOS]), ([3], [EOS, EOS, EOS], [EOS]), ([4, 5, 6], [EOS, EOS], [EOS, EOS, EOS])]
    _, history = train(submission, policy, pairs, 0, 3, epochs=2, batch_size=2)
    for step, entry in enumerate(history):
        close(entry["rewards/margins"], 0.0, atol=1e-12, what=f"margin of step {step}")
        close(entry["rewards/accuracies"], 0.0, what=f"accuracy of step {step}, where all rewards are equal")


@points(6)
def test_matches_unpadded_loop(submission, rng):
    """The log and the trained weights are those of a loop that scores every sequence alone, unpadded, in float64."""
    # A loop and no property: to shrink a failure of this test would take a minute.
    desk = submission.prop(Desk)
    for n, batch_size, epochs, beta, lr, nll_coef, pad_id in (
        (1, 1, 1, 0.1, 0.05, 0.0, 0),
        (3, 3, 2, 0.7, 0.05, 0.0, 0),
        (4, 2, 2, 0.1, 0.01, 1.0, EOS),
        (5, 2, 3, 0.7, 0.05, 0.3, 5),
        (3, 8, 2, 0.3, 0.02, 1.0, 3),
        (7, 4, 2, 0.1, 0.05, 0.0, EOS),
    ):
        seed = int(rng.integers(2**20))
        policy, own = desk.policy(6, seed), Desk().policy(6, seed)
        pairs = random_pairs(random.Random(seed), n)
        config = {"beta": beta, "lr": lr, "epochs": epochs, "batch_size": batch_size, "nll_coef": nll_coef}
        _, history = train(submission, policy, pairs, pad_id, seed, **config)
        compare(history, oracle(own, pairs, **config, generator=torch.Generator().manual_seed(seed)))
        trained = policy.state_dict()
        for name, value in own.state_dict().items():
            close(trained[name], value, rtol=1e-5, atol=1e-5, by="tensor", what=f"trained {name}")


@points(3)
def test_learns_and_generalises(submission):
    """96 pairs, 30 steps: last epoch's loss below 0.35, margins above 2, 80 % of 200 unseen pairs ranked right."""
    desk = submission.prop(Desk)
    policy, own = desk.policy(32, 2, "float32"), Desk().policy(32, 2, "float32")
    pairs = share_pairs(2, 296)
    _, history = train(submission, policy, pairs[:96], 0, 2)
    last = history[-6:]
    loss, margin = (sum(entry[key] for entry in last) / 6 for key in ("loss", "rewards/margins"))
    require(loss < 0.35, "mean loss of the last epoch", got=loss, expected="below 0.35")
    require(margin > 2.0, "mean margin of the last epoch", got=margin, expected="above 2")
    with torch.no_grad():
        before = [float(logp(own, p, c) - logp(own, p, r)) for p, c, r in pairs[96:]]
        own.load_state_dict(state_of(policy))
        after = [float(logp(own, p, c) - logp(own, p, r)) for p, c, r in pairs[96:]]
    right = sum(b > a for a, b in zip(before, after, strict=True)) / 200
    require(right >= 0.8, "share of unseen pairs with a positive margin", got=right, expected="at least 0.8")


@points(2)
def test_likelihood_displacement(submission):
    """The last epoch's rewards/chosen is below -1 without the NLL term and above 0 with nll_coef = 1."""
    desk = submission.prop(Desk)
    pairs = share_pairs(0, 96)
    for nll_coef in (0.0, 1.0):
        _, history = train(submission, desk.policy(32, 0, "float32"), pairs, 0, 0, nll_coef=nll_coef)
        chosen = sum(entry["rewards/chosen"] for entry in history[-6:]) / 6
        good = chosen > 0.0 if nll_coef else chosen < -1.0
        wanted = "above 0" if nll_coef else "below -1"
        require(good, f"rewards/chosen of the last epoch, nll_coef {nll_coef}", got=chosen, expected=wanted)


@points(3)
def test_reference_is_frozen(submission):
    """The reference keeps the first weights bit for bit, requires no grad, is in eval mode, shares no memory."""
    desk = submission.prop(Desk)
    policy = desk.policy(5, 4, "float32", dropout=0.5)
    first = state_of(policy)
    reference, _ = train(submission, policy, random_pairs(random.Random(4), 6), 0, 4, epochs=2, batch_size=4)
    equal(state_of(reference), first, "weights of the reference")
    for name, value in state_of(policy).items():
        require(not bool((value == first[name]).all()), f"the policy's {name} was not trained")
    equal(desk.requires_grad(reference), [], "parameters of the reference that require grad")
    equal(desk.in_train_mode(reference), [], "modules of the reference in train mode")
    desk.move(policy)
    equal(state_of(reference), first, "weights of the reference after those of the policy were changed")


@points(2)
def test_reference_runs_in_eval_mode(submission):
    """The policy trains in train mode, its reference log-probs come from eval mode: a model whose two modes differ."""
    desk = submission.prop(Desk)
    pairs = random_pairs(random.Random(6), 5)
    config = {"beta": 0.5, "lr": 0.05, "epochs": 2, "batch_size": 3, "nll_coef": 0.0}
    _, history = train(submission, desk.policy(5, 6, drift=2.0), pairs, 0, 6, **config)
    own = Desk().policy(5, 6, drift=2.0)
    compare(history, oracle(own, pairs, **config, generator=torch.Generator().manual_seed(6)))


@points(2)
def test_prompt_tokens_get_no_loss(submission):
    """A policy whose logits for the prompt's own tokens are far off has the same history as one without."""
    desk = submission.prop(Desk)
    for length in (2, 4):
        pairs = random_pairs(random.Random(length), 7, prompt_length=length)
        for nll_coef in (0.0, 1.0):
            config = {"epochs": 2, "batch_size": 4, "nll_coef": nll_coef}
            _, plain = train(submission, desk.policy(6, 5), pairs, 0, 8, **config)
            _, noisy = train(submission, desk.policy(6, 5, noise_before=length), pairs, 0, 8, **config)
            compare(noisy, plain)


@points(1)
def test_deterministic(submission):
    """The same weights and generator give the same history; another generator another one."""
    desk = submission.prop(Desk)
    pairs = random_pairs(random.Random(1), 9)
    (_, one), (_, two), (_, three) = (
        train(submission, desk.policy(6, 5), pairs, 0, seed, epochs=2, batch_size=2) for seed in (3, 3, 4)
    )
    equal(two, one, "the second run's log")
    require(three != one, "another generator, but the same log", got=three[0])


@points(3)
def test_cost_forward_passes(submission):
    """One forward pass that trains a step, and at most ceil(N / batch_size) others in all, however many epochs."""
    for n, batch_size, epochs in ((10, 4, 3), (6, 3, 4), (3, 8, 2)):
        desk = submission.prop(Desk)
        pairs = random_pairs(random.Random(n), n)
        policy = desk.policy(4, 1)
        train(submission, policy, pairs, 0, 1, epochs=epochs, batch_size=batch_size)
        log = desk.log()
        chunks = math.ceil(n / batch_size)
        training = [call for call in log if call[0]]
        equal(
            len(training), epochs * chunks, f"forward passes that train, {n} pairs, {epochs} epochs of {chunks} steps"
        )
        others = len(log) - len(training)
        require(others <= chunks, "other forward passes", got=others, expected=f"at most {chunks}")
