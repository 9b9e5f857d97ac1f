"""Section `decoding`: how a trained model speaks. Apart from the search, so that a config is read without torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from typing import Any, Literal

from anaphora.config import build, unknown_setting
from anaphora.decoding.options import TextOptions
from anaphora.errors import UserError, nearest, option
from anaphora.results import brief

SAMPLING_SETTINGS = ("temperature", "top_k", "top_p", "min_p", "epsilon", "seed")
"""Settings of sampling."""
GENERATION_SETTINGS = tuple(TextOptions.__annotations__)
"""Settings that mean something for going on with a text."""
MOST_PENALTY = 10  # of lengths and of what was left unattended; powers and sums beyond drown all else
TEMPERATURES = (1e-4, 1e4)
MOST_REPETITION_PENALTY = 1000
MOST_ROWS = 4096  # hypotheses of one sentence; more would run for hours before memory ends


@dataclass(kw_only=True)
class NoDecoding:
    """Section `decoding` of word vectors, which say nothing."""


@dataclass(kw_only=True)
class Beam(NoDecoding):
    """The search."""

    beam: int = 5
    """Beam size; 1 is greedy search. Not used when sampling."""
    coverage_penalty: float = 0.0
    """GNMT's β: penalizes hypotheses that leave source tokens unattended; needs a model with attention."""
    n_best: int = 1
    """Number of outputs per sentence, best first: at most `beam` hypotheses, or, when sampling, this many samples."""


@dataclass(kw_only=True)
class CountingDecoding:
    """Section `decoding` of what was counted: how many texts are drawn, how long, or by which beam, is said when they
    are asked for."""

    length_penalty: float = 0.6
    """GNMT's α: log-probabilities are divided by ((5 + length) / 6)^α; 0 favors short outputs, 1 long ones."""
    min_length: int = 0
    """Minimum number of tokens before the end-of-sequence token."""
    no_repeat_ngram: int = 0
    """No n-gram of this many tokens may occur twice in one output; 0: no restriction."""
    unknown: bool = False
    """Allow the unknown token in outputs."""
    temperature: float = 1.0
    """Sampling: below 1 sharpens the distribution, above 1 flattens it."""
    top_k: int = 0
    """Sampling: only from the k most probable tokens; 0: from all."""
    top_p: float = 1.0
    """Sampling: only from the fewest tokens that together have at least this probability (nucleus sampling); 1: from
    all."""
    seed: int = 1
    """Sampling: random seed; the same seed gives the same samples, however they are batched."""


@dataclass(kw_only=True)
class LanguageDecoding(CountingDecoding, Beam):
    """Section `decoding` of a neural language model."""

    max_length: int | None = None
    """Maximum number of tokens, end-of-sequence token included; null: max_length_ratio · source tokens +
    max_length_extra."""
    max_length_ratio: float = 2.0
    """Maximum output tokens per source token, if max_length is null."""
    max_length_extra: int = 10
    """Output tokens allowed on top of max_length_ratio."""
    repetition_penalty: float = 1.0
    """The log-probabilities of tokens in the prompt and in the output so far are multiplied by this (Keskar et al.
    2019): above 1 makes them less likely, 1 has no effect. The end-of-sequence token is exempt."""
    stop: list[str] = field(default_factory=list)
    """Stop strings: the output ends before the first of them."""
    sample: bool = False
    """Sample tokens instead of searching for the most probable output."""
    min_p: float = 0.0
    """Sampling: only from tokens with at least this share of the highest probability; 0: from all."""
    epsilon: float | None = None
    """Sampling: only from the most probable token and those with at least this probability; null: from all, or 0.02 for
    minimum Bayes risk."""
    batch_tokens: int = 4096
    """Maximum batch size in source tokens, padding included."""
    batch_sentences: int = 128
    """Maximum batch size in sentences."""
    max_source_tokens: int | None = None
    """Split source lines with more tokens than this, end-of-sequence token included; null: the model's own limit."""
    split_sentences: Literal["auto", "always", "never"] = "auto"
    """Translate each sentence of a line separately and join the translations: always, never, or (auto) if the model was
    trained on single sentences."""


@dataclass(kw_only=True)
class DecodingConfig(LanguageDecoding):
    """How a trained model speaks (section `decoding`): all that the search can be told, and a translator's section."""

    replace_unknown: Literal["dictionary", "copy", "none"] | None = None
    """Replace unknown words in translations (tokenizer.kind: word, fallback: unk). dictionary: by the dictionary's
    translation of the aligned source word, or by a copy of it; copy: always by a copy; none: unknown words are not
    generated (with unknown: true, they appear as <unk>). Null: dictionary, if the model has an unknown token."""
    dictionary: str | None = None
    """Dictionary file, tab-separated: source word, target word, optionally probability and count. Null: dictionary.tsv
    of the model folder, learned from the training text."""
    dictionary_threshold: float = 0.1
    """Ignore dictionary entries less probable than this."""
    mbr: Literal["chrf", "bleu", "gleu"] | None = None
    """Minimum Bayes risk decoding: choose the candidate that is most similar to all samples, by this metric. Null: the
    most probable hypothesis."""
    mbr_samples: int = 64
    """Minimum Bayes risk: number of samples per sentence, drawn by the sampling settings."""
    mbr_candidates: Literal["both", "samples", "beam"] = "both"
    """Minimum Bayes risk: choose among samples and beam hypotheses (both), samples only, or beam hypotheses only
    (weighted by their probabilities, without sampling)."""

    def __post_init__(self) -> None:
        for name in ("beam", "n_best", "mbr_samples", "max_length", "batch_tokens", "batch_sentences"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        for name in ("beam", "n_best", "mbr_samples"):
            if getattr(self, name) > MOST_ROWS:
                raise ValueError(f"{name} must be at most {MOST_ROWS:,}, not {getattr(self, name):,}")
        for name in ("coverage_penalty", "min_length", "max_length_ratio", "max_length_extra", "no_repeat_ngram"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")
        if self.length_penalty < 0:  # the stopping bound needs a penalty that grows with length
            raise ValueError("length_penalty must not be negative; 0 favors short outputs most")
        for name in ("length_penalty", "coverage_penalty"):
            if getattr(self, name) > MOST_PENALTY:
                raise ValueError(f"{name} must be at most {MOST_PENALTY}, not {getattr(self, name):g}")
        if self.top_k < 0:
            raise ValueError("top_k must not be negative; 0 draws among all tokens")
        if not 0 < self.top_p <= 1:
            raise ValueError("top_p must be above 0 and at most 1")
        if not 0 <= self.dictionary_threshold <= 1:
            raise ValueError(
                f"dictionary_threshold is {self.dictionary_threshold}; make it a probability, 0.1 for example"
            )
        if not 0 <= self.min_p <= 1:
            raise ValueError("min_p must be at least 0 and at most 1")
        if self.epsilon is not None and not 0 <= self.epsilon < 1:
            raise ValueError("epsilon must be at least 0 and below 1; 0 draws among all tokens")
        if not 0 < self.repetition_penalty <= MOST_REPETITION_PENALTY:
            what = f"repetition_penalty must be above 0 and at most {MOST_REPETITION_PENALTY:,}"
            raise ValueError(f"{what}; 1 leaves repetitions alone, 1.2 makes them rarer")
        if any(not text for text in self.stop):
            raise ValueError("a stop string is empty; give some text to stop at")
        if not self.temperature > 0:
            raise ValueError("temperature must be above 0; for the most probable token set sample=false and beam=1")
        if not TEMPERATURES[0] <= self.temperature <= TEMPERATURES[1]:
            least, most = TEMPERATURES
            raise ValueError(f"temperature must be between {least} and {most:,.0f}, not {self.temperature:g}")
        if self.mbr is not None and self.sample:
            raise ValueError(f"mbr={self.mbr} draws translations and chooses among them; leave out sample")
        if self.mbr is not None and self.n_best > self.pool:
            raise ValueError(
                f"n_best ({self.n_best}) must not exceed the {self.pool} candidates; raise mbr_samples or beam"
            )
        if not self.sample and self.mbr is None and self.n_best > self.beam:
            raise ValueError(f"n_best ({self.n_best}) must not exceed beam ({self.beam}); widen the beam")
        if self.max_length is not None and self.min_length >= self.max_length:
            raise ValueError(f"min_length ({self.min_length}) must be below max_length ({self.max_length})")
        if self.max_source_tokens is not None and self.max_source_tokens < 2:
            raise ValueError("max_source_tokens must be at least 2: one token and the end mark")

    def __repr__(self) -> str:
        said = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if differs(self, one))
        return brief("DecodingConfig", None, *said)

    @property
    def draws(self) -> bool:
        """Whether anything is drawn at random."""
        return self.sample or (self.mbr is not None and self.mbr_candidates != "beam")

    @property
    def pool(self) -> int:
        """How many candidates minimum Bayes risk chooses among, at most."""
        drawn = 0 if self.mbr_candidates == "beam" else self.mbr_samples
        return drawn + (0 if self.mbr_candidates == "samples" else self.beam)

    def describe(self) -> str:
        """How it searches, in a few words."""
        if self.mbr is not None:
            names = {"both": f"{self.mbr_samples} samples and beam {self.beam}", "beam": f"beam {self.beam}"}
            return f"MBR ({self.mbr}) over {names.get(self.mbr_candidates, f'{self.mbr_samples} samples')}"
        return "sampling" if self.sample else f"beam {self.beam}"


def differs(config: DecodingConfig, one: Field[Any]) -> bool:
    """Whether a setting is another one than by default."""
    usual = one.default if one.default_factory is MISSING else one.default_factory()
    return bool(getattr(config, one.name) != usual)


def changed(own: DecodingConfig, changes: Mapping[str, Any], *, beside: Iterable[str] = ()) -> DecodingConfig:
    """Settings with some changed; None leaves one as it is. `beside`: what else the caller understands."""
    given = {name: value for name, value in changes.items() if value is not None}
    known = [one.name for one in fields(DecodingConfig)]
    for name in given:
        if name not in known:
            raise unknown_setting(name, {*known, *beside}, section="decoding")
    if given.get("sample") is True and str(given.get("beam", 1)) != "1":
        raise UserError(
            f"sampling uses no beam, and both are given (beam={given['beam']})",
            cure="leave out one of them; with n_best several samples are drawn",
        )
    return build(DecodingConfig, {**asdict(own), **given}, section="decoding")


def generation_changes(
    greedy: bool, beam: int | None, decoding: Mapping[str, Any], beside: Iterable[str] = ()
) -> dict[str, Any]:
    """Changes to the settings of a language model that is to go on with a text: it draws, unless it is to be greedy or
    has a beam. What means nothing then is refused."""
    given = {name: value for name, value in decoding.items() if value is not None}
    for name in given:
        if name not in GENERATION_SETTINGS:
            cure = "tokens limits a text" if name == "max_length" else nearest(name, {*GENERATION_SETTINGS, *beside})
            raise UserError(f"decoding.{name} has no meaning in generation", cure=cure)
    if str(given.get("temperature")) in ("0", "0.0"):
        raise UserError("temperature must be above 0", cure=f"{option('greedy', True)} takes the likeliest token")
    if greedy and beam is not None and str(beam) != "1":
        raise UserError("greedy is a beam of 1, and a wider one is asked for", cure="choose one of the two")
    sample = not greedy and beam is None
    if not sample and (said := [name for name in SAMPLING_SETTINGS if name in given]):
        raise UserError(f"{said[0]} is for sampling, and nothing is sampled", cure="leave it out, or sample")
    if "length_penalty" in given and (sample or greedy):
        raise UserError("length_penalty is for beam search, and there is no beam", cure="leave it out, or set beam")
    if greedy:  # where the length counts, a text that has ended might be given up for a longer one
        given["length_penalty"] = 0.0
    return {"sample": sample, "beam": 1 if sample or greedy else beam, "n_best": 1, **given}
