"""Chapter 5.7 against TRL: its trainers' own loss methods, driven without a trainer, and where the two differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from reference import solution
from torch import Tensor

CHAPTER = "05_alignment/07_dpo"
NO_TRL = "trl is an optional peer: pip install -e '.[peers]'"


sequence_logps = solution(CHAPTER, "sequence_logps").sequence_logps
dpo_loss = solution(CHAPTER, "dpo_loss").dpo_loss
preference_losses = solution(CHAPTER, "preference_losses")
dpo_train = solution(CHAPTER, "dpo_train")


@pytest.fixture(scope="module")
def trl() -> ModuleType:
    module: ModuleType = pytest.importorskip("trl", minversion="1.16", reason=NO_TRL)
    return module


@pytest.fixture(scope="module")
def cpo_trainer(trl: ModuleType) -> Any:
    return pytest.importorskip("trl.experimental.cpo", reason=NO_TRL).CPOTrainer


@pytest.fixture(scope="module")
def orpo_trainer(trl: ModuleType) -> Any:
    return pytest.importorskip("trl.experimental.orpo", reason=NO_TRL).ORPOTrainer


class Batch:
    """Chosen and rejected sequences of unequal length with the logits that a policy and a reference give them."""

    def __init__(self, seed: int, pairs: int = 3, vocabulary: int = 11) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.rows, self.length = 2 * pairs, 12
        self.ids = torch.randint(vocabulary, (self.rows, self.length), generator=generator)
        prompt = torch.randint(1, 4, (pairs,), generator=generator).repeat(2)
        total = prompt + torch.randint(1, 9, (self.rows,), generator=generator)
        places = torch.arange(self.length)
        self.attention_mask = (places < total[:, None]).long()
        self.completion_mask = ((places >= prompt[:, None]) & (places < total[:, None])).long()
        self.labels = self.ids.masked_fill(self.completion_mask == 0, -100)
        shape = (self.rows, self.length, vocabulary)
        self.logits = 2 * torch.randn(shape, generator=generator, dtype=torch.float64)
        self.ref_logits = self.logits + 0.5 * torch.randn(shape, generator=generator, dtype=torch.float64)

    def sums(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """policy chosen, policy rejected, reference chosen, reference rejected."""
        policy, reference = (sequence_logps(logits, self.labels)[0] for logits in (self.logits, self.ref_logits))
        return (*policy.chunk(2), *reference.chunk(2))

    def lengths(self) -> tuple[Tensor, Tensor]:
        chosen, rejected = sequence_logps(self.logits, self.labels)[1].chunk(2)
        return chosen, rejected


def outputs(logits: Tensor, labels: Tensor) -> SimpleNamespace:
    """What TRL's fused language-model head returns."""
    log_p = logits[:, :-1].log_softmax(-1)
    targets = labels[:, 1:]
    picked = log_p.gather(-1, targets.clamp(min=0)[..., None])[..., 0].masked_fill(targets == -100, 0.0)
    zeros = torch.zeros_like(picked)
    return SimpleNamespace(log_probs=picked, entropy=zeros, mean_logits=zeros, is_top1=zeros.bool())


def trainer(**settings: Any) -> SimpleNamespace:
    """Stands for a trainer: what its loss methods read of `self`."""

    def same(x: Any) -> Any:
        return x

    return SimpleNamespace(
        model=SimpleNamespace(training=True),
        accelerator=SimpleNamespace(device=torch.device("cpu"), gather=same, gather_for_metrics=same),
        _metrics={"train": defaultdict(list)},
        _total_train_tokens=0,
        _tp_size=1,
        aux_loss_enabled=False,
        precompute_ref_logps=True,
        **settings,
    )


def trl_dpo(trl: ModuleType, batch: Batch, kind: str, beta: float, smoothing: float = 0.0) -> tuple[Tensor, Any]:
    """TRL's loss of a batch (a mean) and its metrics."""
    this = trainer(
        loss_types=[kind],
        loss_weights=[1.0],
        beta=beta,
        label_smoothing=smoothing,
        ld_alpha=None,
        f_divergence_type="reverse_kl",
        use_weighting=False,
    )
    _, _, ref_chosen, ref_rejected = batch.sums()
    inputs = {
        "input_ids": batch.ids,
        "attention_mask": batch.attention_mask,
        "completion_mask": batch.completion_mask,
        "ref_chosen_logps": ref_chosen,
        "ref_rejected_logps": ref_rejected,
    }
    loss = trl.DPOTrainer._compute_loss(this, lambda labels, **_: outputs(batch.logits, labels), inputs, False)
    return loss, this._metrics["train"]


def agree(ours: Callable[[], Tensor], theirs: Callable[[], Tensor], batch: Batch) -> None:
    """The same value, and the same gradient at the policy's logits."""
    batch.logits.requires_grad_()
    values, gradients = [], []
    for loss in (ours, theirs):
        value = loss()
        values.append(value.detach())
        gradients.append(torch.autograd.grad(value, batch.logits)[0])
    torch.testing.assert_close(values[0], values[1].double(), rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-5, atol=1e-7)


# -- log-probs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("average", [False, True])
def test_sequence_logps(cpo_trainer: Any, orpo_trainer: Any, average: bool) -> None:
    for seed in range(10):
        batch = Batch(seed)
        ours, _ = sequence_logps(batch.logits, batch.labels, average)
        for peer in (cpo_trainer, orpo_trainer):
            theirs = peer.get_batch_logps(batch.logits, batch.labels, average_log_prob=average)
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_a_row_without_labels_is_0_where_trl_averages_to_nan(cpo_trainer: Any) -> None:
    batch = Batch(0)
    batch.labels[1] = -100
    ours, counts = sequence_logps(batch.logits, batch.labels, True)
    theirs = cpo_trainer.get_batch_logps(batch.logits, batch.labels, average_log_prob=True)
    assert ours[1] == 0
    assert counts[1] == 0
    assert theirs[1].isnan()


# -- DPO ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pairs", [1, 4])
@pytest.mark.parametrize("beta", [0.1, 0.7])
@pytest.mark.parametrize(("kind", "smoothing"), [("sigmoid", 0.0), ("robust", 0.0), ("robust", 0.1), ("robust", 0.4)])
def test_dpo_loss_and_metrics(trl: ModuleType, kind: str, smoothing: float, beta: float, pairs: int) -> None:
    batch = Batch(pairs, pairs)

    def ours() -> Tensor:
        losses: Tensor = dpo_loss(*batch.sums(), beta=beta, label_smoothing=smoothing, loss_type=kind)[0]
        return losses.mean()

    agree(ours, lambda: trl_dpo(trl, batch, kind, beta, smoothing)[0], batch)
    _, *rewards = dpo_loss(*batch.sums(), beta=beta)
    ours_logged = solution(CHAPTER, "dpo_loss").dpo_metrics(*rewards)
    _, logged = trl_dpo(trl, batch, kind, beta, smoothing)
    for name, value in ours_logged.items():
        assert logged[name] == [pytest.approx(value, rel=1e-6)], name


def test_smoothing_counts_here_and_in_trl_only_beyond_the_plain_sigmoid(trl: ModuleType, cpo_trainer: Any) -> None:
    """TRL's DPO ignores label_smoothing with "sigmoid"; its CPO, like the classic DPO loss, smooths as we do."""
    batch = Batch(3)
    plain, _ = trl_dpo(trl, batch, "sigmoid", 0.3)
    ignored, _ = trl_dpo(trl, batch, "sigmoid", 0.3, 0.2)
    assert plain == ignored
    smoothed, *_ = dpo_loss(*batch.sums(), beta=0.3, label_smoothing=0.2)
    assert abs(smoothed.mean() - plain) > 1e-3
    # A CPO loss of log-ratios is a DPO loss.
    chosen, rejected, ref_chosen, ref_rejected = batch.sums()
    this = trainer(loss_type="sigmoid", beta=0.3, label_smoothing=0.2, alpha=0.0, simpo_gamma=0.0)
    theirs, *_ = cpo_trainer.cpo_loss(this, chosen - ref_chosen, rejected - ref_rejected)
    torch.testing.assert_close(smoothed, theirs, rtol=1e-9, atol=1e-12)


def test_reference_free_is_cpo_without_its_likelihood_term(cpo_trainer: Any) -> None:
    """TRL's DPO has no reference_free any more; its CPO loss has no reference to begin with."""
    batch = Batch(4)
    chosen, rejected, *_ = batch.sums()
    for smoothing in (0.0, 0.1):
        losses, *rewards = dpo_loss(chosen, rejected, None, None, 0.4, smoothing, reference_free=True)
        this = trainer(loss_type="sigmoid", beta=0.4, label_smoothing=smoothing, alpha=0.0, simpo_gamma=0.0)
        theirs, *their_rewards = cpo_trainer.cpo_loss(this, chosen, rejected)
        for got, want in zip((losses, *rewards), (theirs, *their_rewards), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("beta", [0.1, 0.7])
@pytest.mark.parametrize("kind", ["ipo", "hinge"])
def test_ipo_and_hinge(trl: ModuleType, kind: str, beta: float) -> None:
    for seed in range(4):
        batch = Batch(seed)

        def ours(batch: Batch = batch) -> Tensor:
            chosen, rejected, ref_chosen, ref_rejected = batch.sums()
            losses: Tensor = preference_losses.pairwise_loss(
                kind,
                chosen,
                rejected,
                *batch.lengths(),
                ref_chosen_sum=ref_chosen,
                ref_rejected_sum=ref_rejected,
                beta=beta,
            )
            return losses.mean()

        agree(ours, lambda batch=batch: trl_dpo(trl, batch, kind, beta)[0], batch)  # type: ignore[misc]


# -- CPO, SimPO, ORPO -----------------------------------------------------------------------------------------------


def metrics_loss(peer: Any, batch: Batch, **settings: Any) -> Tensor:
    """The whole loss of TRL's CPO trainer, from logits."""
    this = trainer(is_encoder_decoder=False, pad_token_id=0, **settings)
    for name in ("concatenated_forward", "cpo_loss"):
        setattr(this, name, getattr(peer, name).__get__(this))
    this.get_batch_logps, this.concatenated_inputs = peer.get_batch_logps, peer.concatenated_inputs
    inputs = {}
    for side, rows in (("chosen", slice(batch.rows // 2)), ("rejected", slice(batch.rows // 2, None))):
        inputs[f"{side}_input_ids"] = batch.ids[rows]
        inputs[f"{side}_attention_mask"] = batch.attention_mask[rows]
        inputs[f"{side}_labels"] = batch.labels[rows]
    loss: Tensor = peer.get_batch_loss_metrics(this, lambda ids, **_: SimpleNamespace(logits=batch.logits), inputs)[0]
    return loss


def our_pairs(batch: Batch, kind: str, **settings: float) -> Tensor:
    chosen, rejected, *_ = batch.sums()
    losses: Tensor = preference_losses.pairwise_loss(kind, chosen, rejected, *batch.lengths(), **settings)
    return losses.mean()


@pytest.mark.parametrize(("beta", "gamma"), [(2.0, 1.0), (0.5, 0.0), (2.5, 1.6)])
def test_simpo(cpo_trainer: Any, beta: float, gamma: float) -> None:
    """TRL subtracts gamma / beta inside the bracket: the same margin."""
    batch = Batch(5)
    settings = {"loss_type": "simpo", "beta": beta, "simpo_gamma": gamma, "label_smoothing": 0.0}
    agree(
        lambda: our_pairs(batch, "simpo", beta=beta, gamma=gamma),
        lambda: metrics_loss(cpo_trainer, batch, alpha=0.0, cpo_alpha=0.0, **settings),
        batch,
    )


@pytest.mark.parametrize(("beta", "alpha"), [(0.1, 1.0), (0.5, 0.3), (0.5, 0.0)])
def test_cpo_of_one_pair(cpo_trainer: Any, beta: float, alpha: float) -> None:
    batch = Batch(6, pairs=1)
    settings = {"loss_type": "sigmoid", "beta": beta, "simpo_gamma": 0.0, "label_smoothing": 0.0}
    agree(
        lambda: our_pairs(batch, "cpo", beta=beta, alpha=alpha),
        lambda: metrics_loss(cpo_trainer, batch, alpha=0.0, cpo_alpha=alpha, **settings),
        batch,
    )


def test_likelihood_term_is_a_mean_per_answer_here_and_per_token_in_trl(cpo_trainer: Any) -> None:
    """In a batch TRL's CPO divides by the number of all chosen tokens; here each answer has its own mean."""
    batch = Batch(7, pairs=4)
    chosen, *_ = batch.sums()
    lengths, _ = batch.lengths()
    assert len(set(lengths.tolist())) > 1
    settings = {"loss_type": "sigmoid", "beta": 0.2, "simpo_gamma": 0.0, "label_smoothing": 0.0}
    theirs = metrics_loss(cpo_trainer, batch, alpha=0.0, cpo_alpha=1.0, **settings)
    ours = our_pairs(batch, "cpo", beta=0.2)
    per_answer, per_token = -(chosen / lengths).mean(), -chosen.sum() / lengths.sum()
    assert abs(per_answer - per_token) > 1e-3
    torch.testing.assert_close(ours - per_answer, theirs - per_token, rtol=1e-9, atol=1e-9)
    # The NLL term of our dpo_train is TRL's: over all chosen tokens of the minibatch.


def test_orpo_odds(orpo_trainer: Any) -> None:
    """The odds-ratio term, which TRL computes in float32, and adds to an NLL per token of the batch."""
    for seed in range(5):
        batch = Batch(seed, pairs=4)
        chosen, rejected, *_ = batch.sums()
        lengths = batch.lengths()
        means = (chosen / lengths[0], rejected / lengths[1])
        ratio, *_ = orpo_trainer.odds_ratio_loss(trainer(beta=0.3), *means)
        ours = preference_losses.pairwise_loss("orpo", chosen, rejected, *lengths, beta=0.3)
        torch.testing.assert_close((ours + means[0]).float(), -ratio, rtol=1e-5, atol=1e-6)


def test_orpo_of_a_sure_answer_is_finite_here(orpo_trainer: Any) -> None:
    """A mean log-prob of 0 (an empty or a certain answer) has infinite odds in TRL, and counts as -1e-10 here."""
    zero, half, one = torch.zeros(1), torch.full((1,), -0.7), torch.ones(1, dtype=torch.int64)
    ratio, *_ = orpo_trainer.odds_ratio_loss(trainer(beta=1.0), half, zero)
    assert ratio.isinf().all()
    assert preference_losses.pairwise_loss("orpo", half, zero, one, one).isfinite().all()
    # Near 0, both keep the digits.
    tiny = torch.full((1,), -1e-8)
    ratio, *_ = orpo_trainer.odds_ratio_loss(trainer(beta=1.0), half, tiny)
    torch.testing.assert_close(preference_losses.pairwise_loss("orpo", half, tiny, one, one, beta=1.0) + half, -ratio)


# -- KTO ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [[True, False, True, True, False, False], [True] * 6, [False] * 6])
@pytest.mark.parametrize(("beta", "good", "bad", "sign"), [(0.1, 1.0, 1.0, 1), (0.4, 1.0, 1.5, 1), (0.4, 2.0, 0.7, -1)])
def test_kto(trl: ModuleType, labels: list[bool], beta: float, good: float, bad: float, sign: int) -> None:
    """Losses, their gradient, and the baseline, positive or clamped."""
    batch, other = Batch(8), Batch(9)
    desirable = torch.tensor(labels)
    kl_policy, kl_ref = (sequence_logps(logits, other.labels)[0] for logits in (other.logits, other.ref_logits))
    if ((kl_policy - kl_ref).mean() > 0) != (sign > 0):
        other.logits, other.ref_logits, kl_policy, kl_ref = other.ref_logits, other.logits, kl_ref, kl_policy
    ref_sum, _ = sequence_logps(batch.ref_logits, batch.labels)
    settings = {"beta": beta, "desirable_weight": good, "undesirable_weight": bad}
    this = trainer(loss_type="kto", calculate_KL=True, **settings)
    this._compute_kl_logps = trl.KTOTrainer._compute_kl_logps.__get__(this)

    def model(input_ids: Tensor, labels: Tensor, **_: Any) -> SimpleNamespace:
        return outputs(batch.logits if input_ids is batch.ids else other.logits, labels)

    inputs = {
        "input_ids": batch.ids,
        "attention_mask": batch.attention_mask,
        "completion_mask": batch.completion_mask,
        "KL_input_ids": other.ids,
        "KL_attention_mask": other.attention_mask,
        "KL_completion_mask": other.completion_mask,
        "label": desirable,
        "ref_logps": ref_sum,
        "ref_KL_logps": kl_ref,
    }

    def ours() -> Tensor:
        policy_sum, _ = sequence_logps(batch.logits, batch.labels)
        losses, z = preference_losses.kto_loss(policy_sum, ref_sum, desirable, kl_policy, kl_ref, **settings)
        assert (float(z) > 0) == (sign > 0)
        return losses.mean()  # type: ignore[no-any-return]

    agree(ours, lambda: trl.KTOTrainer._compute_loss(this, model, inputs, False), batch)
    z = preference_losses.kto_loss(ref_sum, ref_sum, desirable, kl_policy, kl_ref)[1]
    assert this._metrics["train"]["kl"] == [pytest.approx(float(z), abs=1e-9)]


# -- training -------------------------------------------------------------------------------------------------------


def test_training_logs_what_trl_logs(trl: ModuleType) -> None:
    """The second step of dpo_train, scored by TRL's DPO loss from the logits that the policy has after the first."""
    torch.manual_seed(0)
    policy = torch.nn.Sequential(torch.nn.Embedding(7, 5), torch.nn.Tanh(), torch.nn.Linear(5, 7)).double()
    pairs = [([1, 2], [3, 4, 6], [5, 6]), ([3], [5, 6], [1, 1, 1, 6]), ([2, 2, 2], [6], [0, 6])]
    config = dpo_train.DPOConfig(beta=0.5, lr=0.1, epochs=1, batch_size=3)
    generator = torch.Generator().manual_seed(1)
    start = [p.detach().clone() for p in policy.parameters()]
    reference, first = dpo_train.dpo_train(policy, pairs, 0, config, generator)
    assert first[0]["loss"] == pytest.approx(0.693147, abs=1e-6)
    assert all(torch.equal(p, q) for p, q in zip(reference.parameters(), start, strict=True))
    sequences = [p + c for p, c, _ in pairs] + [p + r for p, _, r in pairs]
    prompts = [len(p) for p, _, _ in pairs] * 2
    batch = Batch(0)
    batch.length = max(map(len, sequences))
    places = torch.arange(batch.length)
    batch.ids = torch.tensor([s + [0] * (batch.length - len(s)) for s in sequences])
    inside = places < torch.tensor([len(s) for s in sequences])[:, None]
    batch.attention_mask = inside.long()
    batch.completion_mask = (inside & (places >= torch.tensor(prompts)[:, None])).long()
    batch.labels = batch.ids.masked_fill(batch.completion_mask == 0, -100)
    batch.logits, batch.ref_logits = policy(batch.ids).detach(), reference(batch.ids)
    loss, logged = trl_dpo(trl, batch, "sigmoid", 0.5)
    # The same run once more, with a second step.
    two = dpo_train.DPOConfig(beta=0.5, lr=0.1, epochs=2, batch_size=3)
    again = torch.nn.Sequential(torch.nn.Embedding(7, 5), torch.nn.Tanh(), torch.nn.Linear(5, 7)).double()
    again.load_state_dict(reference.state_dict())
    _, history = dpo_train.dpo_train(again, pairs, 0, two, torch.Generator().manual_seed(1))
    assert history[1]["loss"] == pytest.approx(float(loss), rel=1e-9)
    for name in ("rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies"):
        assert logged[name] == [pytest.approx(history[1][name], rel=1e-6)], name
