"""Section `training`: everything that decides how a run learns. One dataclass, read by every file of this folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from anaphora.config import byte_size
from anaphora.decoding.decoding_settings import MOST_ROWS
from anaphora.training.schedule import ScheduleName


@dataclass(kw_only=True)
class Loop:
    """What the loop reads, whatever is learned."""

    max_steps: int | None = None
    """Stop after this many updates in total. To train further, raise it and repeat the command."""
    epochs: float | None = None
    """Stop after this many passes over the corpus."""
    max_tokens: int | None = None
    """Stop after this many training tokens; for translators, of the target side."""
    max_minutes: float | None = None
    """Stop after this many minutes of training, summed over all sessions."""
    seed: int = 1
    """Random seed of the initial weights, the order of the data, dropout and subword dropout."""
    batch_tokens: int = 4096
    """Maximum batch size in tokens, padding included: rows × longest side; for a stream, rows × context."""
    accumulate: int = 1
    """Gradient accumulation: number of batches whose gradients are summed into one update."""
    optimizer: Literal["adam", "adamw", "sgd", "asgd"] = "adamw"
    """Optimizer. asgd is SGD that averages its weights once validation stops improving (training.trigger)."""
    momentum: float = 0.0
    """Momentum of sgd and asgd."""
    trigger: int = 5
    """For asgd: start averaging after this many checkpoints without a new best (0: at once)."""
    learning_rate: float = 1e-3
    """Peak learning rate, reached at the end of the warm-up."""
    schedule: ScheduleName = "inverse-sqrt"
    """How the learning rate decays after the warm-up."""
    warmup_steps: int = 400
    """Number of updates over which the learning rate rises from zero to its peak."""
    final_rate: float = 0.0
    """Final learning rate of cosine and linear, as a fraction of the peak."""
    beta1: float = 0.9
    """Adam: decay rate of the mean of the gradient (first moment)."""
    beta2: float = 0.98
    """Adam: decay rate of the mean of its square (second moment)."""
    epsilon: float = 1e-9
    """Adam: added to the denominator, for numerical stability."""
    weight_decay: float = 0.0
    """Weight decay, of matrices and embeddings only. adamw decouples it from the gradient."""
    clip_norm: float = 1.0
    """Clip gradients to this norm (0: no clipping)."""
    label_smoothing: float = 0.1
    """Label smoothing: share of the target probability that is spread over the whole vocabulary."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Precision of matrix products; auto: bf16 on a GPU that supports it, else fp32."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Use torch.compile; auto: on a GPU, if the run is long enough to win back the compilation time."""
    cuda_graphs: Literal["auto", "on", "off"] = "auto"
    """Replay each pass as a CUDA graph instead of launching its kernels one by one, which speeds up small models; auto:
    on a GPU."""
    checkpoint_every: int = 500
    """Number of updates between checkpoints; each is validated, then saved."""
    keep: int = 5
    """Number of checkpoints to keep on disk, besides the best one."""
    average: int = 5
    """Number of checkpoints to average at the end, if the average is better on the validation text (1: no
    averaging)."""
    ema: float = 0.0
    """Decay of an exponential moving average of the weights, which is validated and published in their place (0: none;
    try 0.999)."""
    metric: Literal["loss", "gleu", "bleu", "chrf", "accuracy"] = "loss"
    """Validation metric that selects the best checkpoint and decides early stopping. With reinforce or minimum-risk, by
    default the reward."""
    patience: int = 0
    """Early stopping: stop after this many checkpoints without a new best (0: never)."""
    samples: int = 3
    """Number of samples to show at each checkpoint: translations of validation sentences, or generated lines."""
    log_every: int = 50
    """Number of updates between log lines."""


@dataclass(kw_only=True)
class TranslationTraining(Loop):
    """Section `training` of a translator."""

    consistency: float = 0.0
    """R-Drop's α: weight of the divergence between two passes over the same batch with different dropout. A step costs
    twice as much (0: off)."""
    bidirectional_epochs: int = 0
    """Number of epochs, at the start, that train on every pair in both directions; later epochs train on the requested
    one only (Ding et al. 2021). Source and target must share a vocabulary."""
    guided_alignment: float = 0.0
    """Weight of the guided alignment loss, which trains one attention head to match IBM-1 alignments (0: off; try
    0.1)."""
    guided_layer: int | None = None
    """Guided alignment: decoder layer of the head, from 0. By default the last but one."""
    guided_head: int = 0
    """Guided alignment: the head, from 0."""
    objective: Literal["likelihood", "reinforce", "minimum-risk"] = "likelihood"
    """Training objective of a translator. likelihood: of the reference translations; reinforce: the expected reward of
    its own samples; minimum-risk: the expected risk over sampled candidates. The last two start from a trained model
    (--from)."""
    reward: Literal["gleu", "bleu", "chrf"] = "gleu"
    """With reinforce or minimum-risk: the reward, a sentence-level metric."""
    candidates: int = 8
    """With reinforce or minimum-risk: number of translations sampled for each source sentence, in every pass."""
    sample_temperature: float = 0.5
    """With reinforce or minimum-risk: sampling temperature. 1 samples from the model's own distribution (GNMT); lower
    values come closer to greedy search."""
    candidate_dropout: bool = False
    """With reinforce or minimum-risk: apply dropout when computing the loss of the samples, as for references; sampling
    itself never does. It adds noise, and reduces overfitting on a small corpus."""
    likelihood_weight: float = 0.017
    """With reinforce or minimum-risk: weight of the reference's likelihood in the loss (GNMT's α: 0.017)."""
    risk_sharpness: float = 1.0
    """With minimum-risk: exponent of the candidates' probabilities. A small one flattens them and shrinks the gradient:
    at 0.005 (Shen et al. 2016), a likelihood term of any weight dominates the loss."""
    risk_reference: bool = False
    """With minimum-risk: add the reference to the candidates, as in Shen et al. (2016). Since it outscores all samples,
    all samples become less likely."""
    validation_beam: int = 1
    """Beam size for validation; the final evaluation uses decoding.beam."""


@dataclass(kw_only=True)
class Rows:
    """How a text that goes on across lines is cut."""

    context: int = 256
    """Row length in tokens, for streams and packed text: gradients reach back no further."""


@dataclass(kw_only=True)
class LanguageTraining(Rows, Loop):
    """Section `training` of a language model that guesses the next word."""

    stride: int | None = None
    """For models with a limited context: step in tokens by which the window moves over validation text, so that each
    token is predicted from at least context - stride others. By default half of context."""
    activation_penalty: float = 0.0
    """For language models: weight of activation regularization, the mean square of the last layer's outputs (AR; Merity
    et al. 2018: 2)."""
    temporal_penalty: float = 0.0
    """For language models: weight of temporal activation regularization, the mean squared difference between
    neighboring outputs (TAR; Merity et al. 2018: 1)."""


@dataclass(kw_only=True)
class MaskedTraining(Rows, Loop):
    """Section `training` of a language model that guesses hidden words."""

    masked: float = 0.15
    """For masked language models: share of the tokens to predict; 80 % of these are masked, 10 % replaced by random
    tokens, 10 % kept."""


@dataclass(kw_only=True)
class ClassificationTraining(Loop):
    """Section `training` of a classifier."""


@dataclass(kw_only=True)
class CountingTraining:
    """Section `training` of what is counted: there are no updates."""

    max_memory: str | None = None
    """For n-grams: memory limit of counting, such as 500MB, 2GB or 2GiB; what does not fit is counted on disk (null: no
    limit)."""


@dataclass(kw_only=True)
class TrainingConfig(CountingTraining, ClassificationTraining, MaskedTraining, LanguageTraining, TranslationTraining):
    """All that any section `training` can say: what the engine is given. (Word vectors have an engine of their own.)"""

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
            raise ValueError("optimizer=asgd already averages the weights; leave ema at 0")
        if self.momentum and self.optimizer not in ("sgd", "asgd"):
            raise ValueError(f"momentum is for sgd and asgd; with {self.optimizer}, set beta1")
        for name in ("learning_rate", "risk_sharpness", "sample_temperature"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")
        self.memory_limit()
        if self.average > self.keep:
            raise ValueError(f"average ({self.average}) must not exceed keep ({self.keep}); raise training.keep")

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
