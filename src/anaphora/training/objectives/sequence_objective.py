"""Learning from whole translations: the model says something, is told how good it was, and says more of what was good.

Likelihood teaches one word at a time, after a beginning that is always right, and knows one right answer. What counts
in the end is a whole translation, made after the model's own beginnings. Two classic objectives learn from that; both
start from a model that can translate already, since one that says nothing sensible is never told anything useful.

**reinforce**, as GNMT has it (Wu et al. 2016). The model draws K translations y of each source, each has a reward r(y),
and the expected reward is raised along its gradient

    ∇ E[r] = E[r(y) · ∇ log P(y)]  ≈  1/(K - 1) · Σ_k (r(y_k) - mean of the K rewards) · ∇ log P(y_k)

What is better than the model's other attempts becomes likelier, what is worse less likely. The mean is a *baseline*: it
changes nothing in expectation and removes most of the noise (dividing by K - 1 makes up for y_k's share in the mean).

**minimum-risk** (Shen et al. 2016). K translations are drawn and doubles are dropped; the model's probabilities of
these candidates, to a power and made to sum to one, should lie where the risk 1 - r is low:

    risk = Σ_y Q(y) · (1 - r(y)),    Q(y) = P(y)^α / Σ_y' P(y')^α

(There, the reference is a candidate too; `training.risk_reference` says what that does.)

Either is mixed with the likelihood of the reference, `training.likelihood_weight` times, which keeps the model from
finding sentences that please the reward alone. All three are summed over sentences, as published.

Translations are drawn by the one search (decoding/beam_search.py), by noise that is a function of seed, sentence and
the number of batches drawn so far; that number is carried in checkpoints, so a run goes on bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from anaphora.data.batches import Batch
from anaphora.data.corpus import Corpus
from anaphora.decoding.beam_search import Hypothesis, evaluating, search
from anaphora.decoding.constraints import FORBIDDEN, forbidden_tokens
from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.evaluation.sentence_scores import REWARDS
from anaphora.models.contracts import Translator
from anaphora.nn.kernels.cross_entropy import token_log_probabilities
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD, Tokenizer
from anaphora.training.objectives.objective import Forward, TranslationBatch, TranslationObjective, send
from anaphora.training.training_settings import TrainingConfig

MOST_ROWS = 1 << 32
"""Rows of a corpus below which no two draws share their noise."""


@dataclass
class SequenceBatch:
    """Pairs on the device, and what is needed to draw and to judge: which they are, and what they say."""

    translation: TranslationBatch
    rows: np.ndarray  # (B,) row numbers in the corpus
    references: list[str]
    drawn_tokens: int = field(default=0, compare=False)  # of all that was drawn; known after the loss, as the next
    scored: tuple[int, int, int] = field(default=(1, 0, 0), compare=False)  # candidates, their source and own tokens

    @property
    def tokens(self) -> int:
        return self.translation.tokens


@dataclass
class Candidates:
    """Different translations of the sentences of a batch, sentence by sentence."""

    tokens: list[list[int]]  # N of them, the end mark included where it was said
    sentence: np.ndarray  # (N,) whose translation it is
    place: np.ndarray  # (N,) among those of the same sentence
    counts: np.ndarray  # (N,) how often it was drawn; 0 for a reference that was not

    @property
    def shape(self) -> tuple[int, int]:
        """Sentences, and the most candidates of one."""
        return int(self.sentence.max()) + 1, int(self.place.max()) + 1


class SequenceObjective:
    """The expected reward, or the risk, of whole translations, mixed with the likelihood of the references."""

    side = "target"

    def __init__(
        self,
        inner: TranslationObjective,
        model: Translator,
        corpus: Corpus,
        tokenizer: Tokenizer,
        config: TrainingConfig,
        decoding: DecodingConfig,
    ) -> None:
        self.inner, self.model, self.corpus, self.tokenizer, self.config = inner, model, corpus, tokenizer, config
        # drawn from the model as it is: none of what shapes a finished model's speech, but for ⟨unk⟩ and the lengths
        self.drawing = DecodingConfig(
            sample=True,
            n_best=config.candidates,
            temperature=config.sample_temperature,
            seed=config.seed,
            unknown=decoding.unknown,
            max_length=decoding.max_length,
            max_length_ratio=decoding.max_length_ratio,
            max_length_extra=decoding.max_length_extra,
        )
        self.reward = REWARDS[config.reward]
        self.risk = config.objective == "minimum-risk"
        self.drawn = 0  # batches
        self.reward_sum, self.reward_sentences = 0.0, 0

    # What the loop asks -----------------------------------------------------------------------------------------------

    def send(self, batch: Batch, device: torch.device) -> SequenceBatch:
        references = self.corpus.texts("target", batch.rows)
        return SequenceBatch(self.inner.send(batch, device), batch.rows, references)

    def __call__(self, forward: Forward, batch: SequenceBatch) -> Tensor:
        pairs, config = batch.translation, self.config
        candidates = self.candidates(pairs, batch.rows)
        rewards = self.rewards(candidates, batch.references)  # (B, M), 0 where there is none
        counts = table(candidates, candidates.counts)  # (B, M)
        sizes, read = np.array(list(map(len, candidates.tokens))), pairs.source_lengths.cpu().numpy()
        batch.drawn_tokens = int(sizes @ candidates.counts)
        batch.scored = len(sizes), int(read[candidates.sentence].sum()), int(sizes.sum())
        self.reward_sum += float((rewards * counts).sum() / config.candidates)
        self.reward_sentences += len(rewards)
        log_p = self.log_probabilities(forward, pairs, candidates)  # (B, M)
        worth, times = (torch.from_numpy(array).to(log_p) for array in (rewards, counts))
        if self.risk:
            loss = expected_risk(log_p, worth, config.risk_sharpness)
        else:
            loss = expected_reward_loss(log_p, worth, times)
        if config.likelihood_weight:
            loss = loss + config.likelihood_weight * self.inner(forward, pairs)
        return loss

    def flops(self, model: Translator, batch: SequenceBatch) -> float:
        """What was drawn alike is scored once, after a source of its own. Drawing reads each source once and takes one
        pass, without gradients: a third of what the loop counts."""
        pairs, (candidates, read, said) = batch.translation, batch.scored
        scored = model.flops(read, said, read / candidates, said / candidates)
        length = batch.drawn_tokens / (pairs.rows * self.config.candidates)
        drawn = model.flops(pairs.source_tokens, batch.drawn_tokens, pairs.source_tokens / pairs.rows, length)
        likelihood = self.inner.flops(model, pairs) if self.config.likelihood_weight else 0.0
        return likelihood + scored + drawn / 3

    def state_dict(self) -> dict[str, Tensor]:
        return {"drawn": torch.tensor(self.drawn)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.drawn = int(state["drawn"]) if state else 0
        self.reward_sum, self.reward_sentences = 0.0, 0

    def metrics(self) -> dict[str, float]:
        """The mean reward of what was drawn since this was last asked."""
        mean = self.reward_sum / max(self.reward_sentences, 1)
        self.reward_sum, self.reward_sentences = 0.0, 0
        return {"reward": mean}

    # Its parts --------------------------------------------------------------------------------------------------------

    def candidates(self, pairs: TranslationBatch, rows: np.ndarray) -> Candidates:
        """What the model says of these sources today."""
        numbers = torch.from_numpy(rows.astype(np.int64) + self.drawn * MOST_ROWS)
        self.drawn += 1
        found = search(self.model, pairs.source, pairs.source_lengths, self.drawing, sentence_ids=numbers)
        # autocast remembers weights that it has converted; these were, without a gradient
        torch.clear_autocast_cache()
        return gather(found, pairs.labels.tolist() if self.risk and self.config.risk_reference else None)

    def rewards(self, candidates: Candidates, references: Sequence[str]) -> np.ndarray:
        texts = self.tokenizer.decode_batch(candidates.tokens)
        return table(candidates, self.reward(texts, [references[i] for i in candidates.sentence]))

    def log_probabilities(self, forward: Forward, pairs: TranslationBatch, candidates: Candidates) -> Tensor:
        """log P of each candidate, as it was drawn: (B, M), -inf where there is none.

        Without dropout, unless asked for: what was drawn came from that model, and two draws of dropout would add
        their own noise to that of the samples.
        """
        device = pairs.source.device
        lengths = np.array(list(map(len, candidates.tokens)))
        rows = np.full((len(lengths), lengths.max()), PAD)  # (N, T)
        rows[np.arange(lengths.max()) < lengths[:, None]] = np.concatenate(candidates.tokens)
        labels = send(rows, device)
        target = torch.cat([torch.full_like(labels[:, :1], BOS), labels[:, :-1]], dim=1)
        sentence = torch.from_numpy(candidates.sentence).to(device)  # (N,)
        with nullcontext() if self.config.candidate_dropout else evaluating(self.model):
            logits = forward(pairs.source[sentence], target, pairs.source_lengths[sentence])  # (N, T, V)
        if not self.risk and self.drawing.temperature != 1.0:
            logits = logits / self.drawing.temperature
        if not self.risk:  # what is never said had no share in the draw
            silent = forbidden_tokens(unknown=self.drawing.unknown, device=device)
            logits = logits.index_fill(2, silent, FORBIDDEN)
        log_p = token_log_probabilities(logits, labels, ignore=PAD).sum(dim=1)  # (N,)
        place = sentence, torch.from_numpy(candidates.place).to(device)
        return log_p.new_full(candidates.shape, FORBIDDEN).index_put(place, log_p)


def gather(found: Sequence[Sequence[Hypothesis]], references: Sequence[Sequence[int]] | None) -> Candidates:
    """Each translation once, and how often it was drawn; with references, padded rows of labels, those too."""
    tokens: list[list[int]] = []
    sentence: list[int] = []
    place: list[int] = []
    counts: list[int] = []
    for number, hypotheses in enumerate(found):
        times: dict[tuple[int, ...], int] = {}
        if references is not None:
            times[tuple(token for token in references[number] if token != PAD)] = 0
        for hypothesis in hypotheses:
            said = (*hypothesis.tokens, *((EOS,) if hypothesis.finished else ()))
            times[said] = times.get(said, 0) + 1
        tokens += map(list, times)
        sentence += [number] * len(times)
        place += range(len(times))
        counts += times.values()
    return Candidates(tokens, *(np.array(column, dtype=np.int64) for column in (sentence, place, counts)))


def table(candidates: Candidates, values: np.ndarray) -> np.ndarray:
    """One value a candidate, by sentence: (N,) -> (B, M), 0 where there is no candidate."""
    laid = np.zeros(candidates.shape)
    laid[candidates.sentence, candidates.place] = values
    return laid


def expected_reward_loss(log_p: Tensor, rewards: Tensor, counts: Tensor) -> Tensor:
    """-E[reward], summed over sentences, with REINFORCE's gradient: log_p, rewards, counts (B, M) of the different
    samples of each sentence; a place with count 0 is none.

    The value is the mean reward of the samples; the gradient is that of the formula at the top of this file.
    """
    samples = counts.sum(dim=1, keepdim=True)  # (B, 1)
    mean = (counts * rewards).sum(dim=1, keepdim=True) / samples
    weights = counts * (rewards - mean) / (samples - 1).clamp(min=1)  # (B, M); one sample alone says nothing
    score = (weights * log_p.masked_fill(counts == 0, 0.0)).sum()
    return score.detach() - score - mean.sum()


def expected_risk(log_p: Tensor, rewards: Tensor, sharpness: float) -> Tensor:
    """The mean of 1 - reward under P^sharpness, renormalized over the candidates; summed over sentences.

    log_p (B, M) is -inf where there is no candidate.
    """
    q = (sharpness * log_p).softmax(dim=1)  # (B, M)
    return (q * (1 - rewards)).sum()
