"""Section `training`: everything that decides how a run learns. One dataclass, read by every file of this folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from anaphora.config import byte_size
from anaphora.decoding.decoding_settings import MOST_ROWS


@dataclass(kw_only=True)
class TrainingConfig:
    max_steps: int | None = None
    """Stop after this many updates in all. Raise it and repeat the command to go on."""
    epochs: float | None = None
    """Stop after this many passes over the corpus."""
    max_tokens: int | None = None
    """Stop after this many tokens: of the target side, or of the text."""
    max_minutes: float | None = None
    """Stop after this much training time, all sessions together."""
    seed: int = 1
    """Decides the weights at the start, the order of the data, dropout and subword dropout."""
    batch_tokens: int = 4096
    """A batch is at most this many rows × its longest side, in tokens; of a stream, rows × context."""
    accumulate: int = 1
    """Batches whose gradients are summed into one update."""
    context: int = 256
    """Tokens of a row of text that is one stream, or packed: how far a gradient reaches back."""
    stride: int | None = None
    """Tokens by which the window moves over validation text, of a model that can read only so many: each token is
    predicted from at least context - stride others; half of context by default."""
    optimizer: Literal["adam", "adamw", "sgd", "asgd"] = "adamw"
    """AdamW decouples weight decay from the gradient; asgd is sgd whose weights are averaged once it circles round the
    best ones (training.trigger)."""
    momentum: float = 0.0
    """Of sgd and asgd: share of the last change that is added to the next."""
    trigger: int = 5
    """Of asgd: the average begins after this many checkpoints without a new best (0: at once)."""
    learning_rate: float = 1e-3
    """The highest rate, reached at the end of the warm-up."""
    schedule: Literal["inverse-sqrt", "cosine", "linear", "constant"] = "inverse-sqrt"
    """How the rate falls after the warm-up."""
    warmup_steps: int = 400
    """Updates over which the rate rises from zero."""
    final_rate: float = 0.0
    """Where cosine and linear end, as a fraction of the highest rate."""
    beta1: float = 0.9
    """Adam's memory of the gradient."""
    beta2: float = 0.98
    """Adam's memory of its square."""
    epsilon: float = 1e-9
    """Adam's divisor never falls below this."""
    weight_decay: float = 0.0
    """Pull of every matrix towards zero."""
    clip_norm: float = 1.0
    """Longest allowed gradient (0: no limit)."""
    label_smoothing: float = 0.1
    """Share of the target probability spread over the whole vocabulary."""
    activation_penalty: float = 0.0
    """Pull of a language model's last vectors towards zero, by their mean square (AR of Merity et al. 2018: 2)."""
    temporal_penalty: float = 0.0
    """Pull of each of them towards the one before (TAR: 1)."""
    masked: float = 0.15
    """Share of the tokens that a masked language model has to guess: 80 % of them hidden, 10 % replaced by others."""
    consistency: float = 0.0
    """R-Drop's α: each batch is read under two draws of dropout, whose predictions are pulled together; a step costs
    twice as much (0: off)."""
    bidirectional_epochs: int = 0
    """Epochs at the start that read every pair twice, as it is and turned round, so that both directions are learned;
    then the one that was asked for (Ding et al. 2021). Source and target must share a vocabulary."""
    guided_alignment: float = 0.0
    """Weight of guided alignment: one attention head learns where IBM-1 would look (0: off; 0.1, say)."""
    guided_layer: int | None = None
    """The decoder layer, from 0, whose head is guided; the last but one by default."""
    guided_head: int = 0
    """The head, from 0, that is guided."""
    objective: Literal["likelihood", "reinforce", "minimum-risk"] = "likelihood"
    """What a translator learns by: the likelihood of given translations or, from a model that can translate (--from),
    the expected reward of its own, or the risk of candidates that it drew."""
    reward: Literal["gleu", "bleu", "chrf"] = "gleu"
    """What a whole translation is judged by, sentence by sentence: with reinforce or minimum-risk."""
    candidates: int = 8
    """Translations drawn of each source sentence, every time that it is learned from: with reinforce or
    minimum-risk."""
    sample_temperature: float = 0.5
    """At which they are drawn: 1 is the model as it is (GNMT), below 1 they are nearer to what greedy search says."""
    candidate_dropout: bool = False
    """Whether they are scored, and learned from, with dropout, as given translations are; they are drawn without. It
    adds noise, and keeps a small corpus from being learned by heart."""
    likelihood_weight: float = 0.017
    """Weight of the likelihood of the reference beside the reward or the risk (GNMT's α: 0.017)."""
    risk_sharpness: float = 1.0
    """Of minimum-risk: the power of the candidates' probabilities. Small is flat, and has a small gradient: beside that
    of Shen et al. (2016), 0.005, a likelihood of any weight is all that is learned by."""
    risk_reference: bool = False
    """Of minimum-risk: whether the reference joins the candidates (as in Shen et al. 2016). It is better than all that
    the model says, so that everything the model says becomes less likely."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Arithmetic of the matrix products; auto is bf16 on a GPU that has it, else fp32."""
    compile: Literal["auto", "on", "off"] = "auto"
    """torch.compile; auto compiles on a GPU when the run is long enough to win the compilation time back."""
    cuda_graphs: Literal["auto", "on", "off"] = "auto"
    """Replay the kernels of a whole pass instead of launching each: a small model is then limited by the GPU, no more
    by Python; auto is on where there is a GPU."""
    checkpoint_every: int = 500
    """Updates between two checkpoints; each is validated, then saved."""
    keep: int = 5
    """Checkpoints that stay on disk besides the best one."""
    average: int = 5
    """Checkpoints averaged at the end, if that is better on the validation text (1: never)."""
    ema: float = 0.0
    """Decay of a moving average of the weights, validated and published in their place (0: none; 0.999, say)."""
    metric: Literal["loss", "gleu", "bleu", "chrf", "accuracy"] = "loss"
    """What decides which checkpoint is best, and early stopping; the reward, where there is one."""
    patience: int = 0
    """Stop after this many checkpoints without a new best (0: never)."""
    validation_beam: int = 1
    """Beam of the translations made for validation; the last evaluation uses decoding.beam."""
    samples: int = 3
    """Validation sentences shown at each checkpoint; of a language model, lines that it makes up."""
    log_every: int = 50
    """Updates between two lines of the log."""
    max_memory: str | None = None
    """Memory that a counting run may take, "500MB", "2GB" or "2GiB"; what does not fit is counted on disk (null: all
    that is needed)."""

    def __post_init__(self) -> None:
        least = {"batch_tokens": 1, "accumulate": 1, "warmup_steps": 0, "checkpoint_every": 1, "keep": 1, "average": 1}
        least |= {"patience": 0, "validation_beam": 1, "samples": 0, "log_every": 1, "clip_norm": 0, "seed": 0}
        least |= {"consistency": 0, "guided_alignment": 0, "guided_head": 0, "context": 1, "trigger": 0}
        least |= {"bidirectional_epochs": 0}
        least |= {"activation_penalty": 0, "temporal_penalty": 0, "candidates": 2, "likelihood_weight": 0}
        for name, low in least.items():
            if getattr(self, name) < low:
                raise ValueError(f"{name} must be at least {low}, not {getattr(self, name)}")
        for name in WEIGHTS:
            if getattr(self, name) > MOST_WEIGHT:
                raise ValueError(f"{name} must be at most {MOST_WEIGHT:,}, not {getattr(self, name):g}")
        for name in ("validation_beam", "candidates"):
            if getattr(self, name) > MOST_ROWS:
                raise ValueError(f"{name} must be at most {MOST_ROWS:,}, not {getattr(self, name):,}")
        for name in ("max_steps", "epochs", "max_tokens", "max_minutes"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be above 0, not {value}")
        for name in ("label_smoothing", "ema", "beta1", "beta2", "momentum"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and below 1, not {getattr(self, name)}")
        if not 0 < self.masked < 1:
            raise ValueError(f"masked must be above 0 and below 1, not {self.masked}")
        if self.stride is not None and not 1 <= self.stride <= self.context:
            raise ValueError(f"stride is {self.stride}; it must be at least 1 and at most context ({self.context})")
        if self.optimizer == "asgd" and self.ema:
            raise ValueError("optimizer=asgd averages weights by itself; leave ema at 0")
        if self.momentum and self.optimizer not in ("sgd", "asgd"):
            raise ValueError(f"momentum is for sgd and asgd; {self.optimizer} has beta1")
        for name in ("learning_rate", "risk_sharpness", "sample_temperature"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")
        self.memory_limit()
        if self.average > self.keep:
            raise ValueError(f"average ({self.average}) needs that many kept checkpoints; set training.keep as high")

    def memory_limit(self) -> int | None:
        """`max_memory` in bytes."""
        if self.max_memory is None:
            return None
        return byte_size(self.max_memory, "max_memory")


WEIGHTS = ("consistency", "guided_alignment", "activation_penalty", "temporal_penalty", "likelihood_weight")
"""Settings that weigh a part of the loss beside the others."""
MOST_WEIGHT = 1_000_000
"""Beside such a weight nothing else is learned; a far larger one is no number to a GPU."""

RISK = ("risk_sharpness", "risk_reference")
"""Settings that mean something only with objective=minimum-risk."""
SEQUENCE = ("reward", "candidates", "sample_temperature", "candidate_dropout", "likelihood_weight", *RISK)
"""Settings that mean something only where whole translations are learned from: objective=reinforce or minimum-risk."""

LIMITS = ("max_steps", "epochs", "max_tokens", "max_minutes", "patience")
"""Settings that say how far to go; changing them continues the same run."""

REPORTING = ("samples", "log_every")
"""Settings that change what is shown and nothing that is learned."""
