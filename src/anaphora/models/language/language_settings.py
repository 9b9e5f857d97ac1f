"""Settings of the neural language models, one class a kind (section `model`). Nothing here needs torch.

    dan                     the mean of the words read so far, then feed-forward layers
    window                  a network over the last words, each in its own place
    rnn, gru, lstm          a cell that carries a state from word to word
    conv                    windows in layers, each seeing further
    transformer-decoder     attention to all words before; `GPT2` has the shape of GPT-2 small
    transformer-encoder     attention to all words, before and after, from which hidden words are guessed; `BERT`
    backpack                several vectors for each word, the senses, which one of the others weighs (backpack.py)

Each is an embedding, an encoder and a head (causal.py, masked.py); with `labels` it chooses classes (classifier.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from anaphora.config import above_zero
from anaphora.nn.choices import Activation, Norm, Positions, check_depth
from anaphora.nn.expert_settings import chosen_experts

Pool = Literal["mean", "max", "first", "last"]
Initial = Literal["xavier", "normal"]
Backend = Literal["auto", "reference", "sdpa", "flex"]


@dataclass(kw_only=True)
class LanguageConfig:
    """What all neural language models are told (section `model`)."""

    kind: str = ""
    """Which system this is."""
    dim: int = 256
    """Width of a word's vector."""
    layers: int = 1
    """Layers of the encoder."""
    tie: bool = True
    """One table for the vectors of words read and of words to be said."""
    output_bias: bool = True
    """A number for each word that is added to its score, whatever came before."""
    dropout: float = 0.1
    """Between layers, and inside them where the kind has no setting of its own."""
    input_dropout: float = 0.0
    """On the vectors of the words read."""
    output_dropout: float = 0.0
    """On the encoder's last vectors, before the head."""
    embedding_dropout: float = 0.0
    """Words of the table that are forgotten in an update, everywhere in its batch."""
    locked: bool = False
    """Input, output and between layers, the same numbers are dropped at every place of a row."""
    embedding_from: str | None = None
    """Word vectors that the words' table begins with (a folder, or a file such as vectors.txt), as wide as `dim`; words
    without one begin as all do otherwise."""
    labels: list[str] = field(default_factory=list)
    """Names of the classes, of a model that puts a whole text into one of them; none: a language model."""
    pool: Pool = "mean"
    """What a class is chosen from: the mean or maximum of all vectors, the first or the last."""
    both_ways: bool = False
    """Whether a classifier's encoder reads from both sides; a language model would see the words it is to guess."""

    def __post_init__(self) -> None:
        above_zero(self, "dim", "layers")
        check_depth(layers=self.layers)
        for name in ("dropout", "input_dropout", "output_dropout", "embedding_dropout"):
            share(name, getattr(self, name))
        if len(set(self.labels)) < len(self.labels) or len(self.labels) == 1:
            raise ValueError(f"labels must be two names or more, each once; they are {self.labels}")


@dataclass(kw_only=True)
class AveragingConfig(LanguageConfig):
    """Deep averaging network (Iyyer et al. 2015): h = the mean of the words so far; h ← activation(W h + b), `layers`
    times. Which words, and how often, but not in what order."""

    kind: Literal["dan"] = "dan"
    """Which system this is."""
    layers: int = 2
    """Feed-forward layers after the mean; residual from the second on."""
    hidden: int | None = None
    """Their width; as wide as the words' vectors by default."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "hidden")


@dataclass(kw_only=True)
class WindowConfig(LanguageConfig):
    """A feed-forward network over the last words, side by side (Bengio et al. 2003)."""

    kind: Literal["window"] = "window"
    """Which system this is."""
    layers: int = 1
    """Feed-forward layers; residual from the second on."""
    window: int = 5
    """Words that it sees: a word is predicted from so many before it."""
    hidden: int | None = None
    """Width of the layers; as wide as the words' vectors by default."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "hidden", "window")


@dataclass(kw_only=True)
class RecurrentConfig(LanguageConfig):
    """A cell that carries a state from word to word."""

    hidden: int | None = None
    """Width of every layer but the last, which is as wide as the words' vectors; the same width by default."""
    weight_dropout: float = 0.0
    """On the matrices that carry the state from word to word, the same ones at all places (Merity et al. 2018)."""
    initial: Literal["uniform", "orthogonal"] = "uniform"
    """How those matrices begin: small numbers, or a rotation, under which a state neither fades nor explodes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "hidden")
        share("weight_dropout", self.weight_dropout)
        if self.both_ways and (self.dim % 2 or (self.hidden or 0) % 2):
            raise ValueError(f"two directions share dim ({self.dim}) and hidden ({self.hidden}); make them even")


@dataclass(kw_only=True)
class RnnConfig(RecurrentConfig):
    """h_t = tanh(W x_t + U h_{t-1} + b) (Elman 1990; Mikolov et al. 2010)."""

    kind: Literal["rnn"] = "rnn"
    """Which system this is."""


@dataclass(kw_only=True)
class GruConfig(RecurrentConfig):
    """A recurrent cell with two gates (Cho et al. 2014)."""

    kind: Literal["gru"] = "gru"
    """Which system this is."""


@dataclass(kw_only=True)
class LstmConfig(RecurrentConfig):
    """A recurrent cell with three gates and a memory (Hochreiter & Schmidhuber 1997; Gers et al. 2000)."""

    kind: Literal["lstm"] = "lstm"
    """Which system this is."""
    forget_bias: float | None = None
    """How open the gate of the memory begins: at 1 it keeps three quarters from word to word (Gers et al. 2000;
    Jozefowicz et al. 2015); null: near 0, where it keeps half."""


@dataclass(kw_only=True)
class ConvolutionConfig(LanguageConfig):
    """Convolutions in layers, each place seeing the last `width` of the layer below (Dauphin et al. 2017)."""

    kind: Literal["conv"] = "conv"
    """Which system this is."""
    layers: int = 4
    """Convolutions, each with a residual."""
    width: int = 3
    """Places of the layer below that a place sees."""
    dilated: bool = False
    """Twice as far apart in each layer: L layers then see 1 + (2^L - 1)(width - 1) words."""
    gated: bool = True
    """Each layer is a product with a gate, a · σ(b), instead of ReLU."""
    normalised: bool = True
    """Layer normalisation before each convolution and after the last."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "width")
        if self.both_ways and self.width % 2 == 0:
            raise ValueError(f"width ({self.width}) must be odd where a place sees as many words on each side")
        if self.dilated and self.layers > 20:
            raise ValueError(f"{self.layers} dilated layers would see more than a million words; choose fewer layers")


@dataclass(kw_only=True)
class TransformerLanguageConfig(LanguageConfig):
    """What both Transformers are told."""

    dim: int = 256
    """Width of every vector between layers."""
    layers: int = 4
    """Blocks: attention, then a feed-forward network."""
    dropout: float = 0.1
    """After every sub-layer; on the vectors of the words read, where input_dropout is 0."""
    locked: bool = False
    """At input and output, the same numbers are dropped at every place of a row."""
    heads: int = 4
    """Attention heads; each has dim / heads dimensions."""
    key_value_heads: int | None = None
    """Key and value heads, each shared by a group of heads (1: multi-query); as many as heads by default."""
    feed_forward: int | None = None
    """Hidden width of the feed-forward network, of experts of each; four times dim by default."""
    experts: int | None = None
    """Experts in place of a feed-forward network, each token being routed to a few of them; none by default."""
    experts_per_token: int | None = None
    """With experts: how many each token is routed to; 2 by default."""
    experts_every: int | None = None
    """With experts: which layers have them: all (1, by default), each second one (2), …"""
    expert_balance: float | None = None
    """With experts: weight of the loss that keeps them all in use; 0.1 by default."""
    norm: Norm = "pre"
    """Normalise before each sub-layer (pre) or after the residual sum (post, as first published)."""
    epsilon: float = 1e-5
    """Added to the variance by which layers are normalised."""
    activation: Activation = "gelu"
    """Non-linearity of the feed-forward network; gelu-tanh is GELU by the formula that GPT-2 was trained with."""
    positions: Positions = "rotary"
    """How a word knows where it stands: by its input vector (sinusoidal, sinusoidal-concatenated, learned), by every
    attention (rotary, alibi, relative), or not at all (none)."""
    window: int | None = None
    """Attention sees only places fewer than this away; all of them by default."""
    max_length: int | None = 512
    """The longest row, in tokens with ⟨s⟩. Learned positions are a table of so many; without them, none lifts it."""
    scale_embedding: bool = True
    """Words' vectors are multiplied by √dim."""
    initial: Initial = "normal"
    """How weights begin: xavier, by the width of each layer; normal, with deviation 0.02, and less at the end of each
    residual, the more layers there are (GPT-2)."""
    attention_dropout: float = 0.0
    """On attention weights."""
    activation_dropout: float = 0.0
    """Inside the feed-forward network."""
    inverse_layer_scale: bool = False
    """Attention scores of the second layer are halved, of the third divided by three, … (published Backpacks)."""
    attention: Backend = "auto"
    """How attention is computed: the reference, PyTorch's fused kernels, FlexAttention; auto takes the fastest."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "heads", "key_value_heads", "feed_forward", "window")
        if self.dim % self.heads:
            raise ValueError(f"dim ({self.dim}) must be a multiple of heads ({self.heads}); choose another of the two")
        if self.heads % self.shared_heads:
            raise ValueError(f"heads ({self.heads}) must be a multiple of key_value_heads ({self.shared_heads})")
        if self.positions == "rotary" and self.dim // self.heads % 2:
            raise ValueError(f"rotary positions need an even dim / heads; {self.dim} / {self.heads} is odd")
        if self.positions == "learned" and self.max_length is None:
            raise ValueError("learned positions are a table; say how long with max_length")
        if self.max_length is not None and self.max_length < 2:
            raise ValueError(f"max_length is {self.max_length}; ⟨s⟩ and one word are 2")
        if not self.epsilon > 0:
            raise ValueError(f"epsilon is {self.epsilon}; it must be above 0")
        if self.attention == "flex" and self.attention_dropout:
            raise ValueError("attention=flex has no dropout on weights; leave attention at auto")
        for name in ("attention_dropout", "activation_dropout"):
            share(name, getattr(self, name))
        chosen_experts(self, layers=self.layers)

    @property
    def shared_heads(self) -> int:
        """Key and value heads."""
        return self.key_value_heads or self.heads

    @property
    def inner(self) -> int:
        """Hidden width of the feed-forward network."""
        return self.feed_forward or 4 * self.dim


@dataclass(kw_only=True)
class TransformerDecoderConfig(TransformerLanguageConfig):
    """Transformer without a source: every word looks at those before it (Radford et al. 2018)."""

    kind: Literal["transformer-decoder"] = "transformer-decoder"
    """Which system this is."""


@dataclass(kw_only=True)
class TransformerEncoderConfig(TransformerLanguageConfig):
    """Transformer that sees all words but the hidden ones, and guesses those (Devlin et al. 2019)."""

    kind: Literal["transformer-encoder"] = "transformer-encoder"
    """Which system this is."""
    mask: int | None = None
    """The token that stands in a hidden word's place; one more than the vocabulary has by default."""
    token_types: int = 0
    """Kinds of segments, each with a vector that is added to its words' (BERT: 2); all words are of the first."""
    embedding_norm: bool = False
    """Layer normalisation of the first vectors (BERT)."""
    transform: bool = False
    """One more layer, W x + b, GELU, layer normalisation, before words are guessed (BERT)."""
    pooler: bool = False
    """A layer, tanh(W x₁ + b), over the first vector, for whoever loads a model that has one (BERT)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.token_types < 0:
            raise ValueError(f"token_types is {self.token_types}; it must be at least 0")


OWN = ("kind", "senses", "sense_feed_forward", "sense_dropout", "sense_window", "near_senses", "encoder", "silent")
"""Settings of a Backpack that are not its contextualiser's."""
ContextEncoder = Literal["transformer-decoder", "lstm", "gru", "rnn", "conv", "window", "dan"]


@dataclass(kw_only=True)
class BackpackConfig(LanguageConfig):
    """Every word has several sense vectors, the same wherever it stands; an encoder that reads one way, the
    contextualiser, says how much of each goes into the guess of the next word (Hewitt et al. 2023). One table is the
    encoder's input, the senses' input, and what words are guessed with: always tied, and without a bias.

    Settings of the contextualiser are those of its own kind, also where they are not said; others are refused.
    """

    kind: Literal["backpack"] = "backpack"
    """Which system this is."""
    senses: int = 16
    """Sense vectors of a word; they divide dim, for each has dim / senses numbers of the queries and keys."""
    sense_feed_forward: int | None = None
    """Hidden width of the two networks that make senses; four times dim by default."""
    sense_dropout: float = 0.0
    """Inside the networks that make senses, one draw for all places of a word; output_dropout is for each place."""
    sense_window: int | None = None
    """Senses are taken from so many words at the most, the last ones; null: from all. What stands further back is
    read by the contextualiser alone, and can only choose among near senses."""
    near_senses: int | None = None
    """Senses whose weights begin at a place's own word, the others' at all words alike; half of them by default."""
    encoder: ContextEncoder = "transformer-decoder"
    """The contextualiser: any kind that reads one way."""
    layers: int = 4
    """Layers of the contextualiser."""
    silent: list[int] = field(default_factory=list)
    """Tokens that are read and never said: marks of ours in a model that was made without them."""
    output_bias: bool = False
    """None: what a word scores is a sum over the senses before it, and over nothing else."""
    max_length: int | None = 512
    """Of a Transformer: the longest row, in tokens with ⟨s⟩."""
    heads: int | None = None
    """Of a Transformer: attention heads."""
    key_value_heads: int | None = None
    """Of a Transformer: key and value heads."""
    feed_forward: int | None = None
    """Of a Transformer: hidden width of its feed-forward networks."""
    norm: Norm | None = None
    """Of a Transformer: where it normalises."""
    epsilon: float | None = None
    """Of a Transformer: added to the variance by which layers are normalised."""
    activation: Activation | None = None
    """Of a Transformer: non-linearity of its feed-forward networks."""
    positions: Positions | None = None
    """Of a Transformer: how a word knows where it stands."""
    scale_embedding: bool | None = None
    """Of a Transformer: words' vectors are multiplied by √dim, at its input alone."""
    attention_dropout: float | None = None
    """Of a Transformer: on attention weights."""
    activation_dropout: float | None = None
    """Of a Transformer: inside the feed-forward network."""
    inverse_layer_scale: bool | None = None
    """Of a Transformer: attention scores of layer i are divided by i (the published ones)."""
    attention: Backend | None = None
    """Of a Transformer: how attention is computed."""
    window: int | None = None
    """Of a Transformer and of a window: how far back it sees."""
    hidden: int | None = None
    """Of recurrent, averaging and window networks: width of their layers."""
    initial: Literal["xavier", "normal", "uniform", "orthogonal"] | None = None
    """Of a Transformer and of recurrent networks: how weights begin."""
    weight_dropout: float | None = None
    """Of recurrent networks: on the matrices that carry the state."""
    forget_bias: float | None = None
    """Of an LSTM: how open the gate of the memory begins."""
    width: int | None = None
    """Of convolutions: places of the layer below that a place sees."""
    dilated: bool | None = None
    """Of convolutions: twice as far apart in each layer."""
    gated: bool | None = None
    """Of convolutions: each layer is a product with a gate."""
    normalised: bool | None = None
    """Of convolutions: layer normalisation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "senses", "sense_feed_forward", "sense_window")
        self.near_senses = (self.senses + 1) // 2 if self.near_senses is None else self.near_senses
        if not 0 <= self.near_senses <= self.senses:
            raise ValueError(
                f"near_senses is {self.near_senses}; of {self.senses} senses 0 to {self.senses} can be near"
            )
        if not 0.0 <= self.sense_dropout < 1.0:
            raise ValueError(f"sense_dropout is {self.sense_dropout}; it must be at least 0 and less than 1")
        if self.dim % self.senses:
            near = max(k for k in range(1, self.senses + 1) if self.dim % k == 0)
            why = f"dim ({self.dim}) must be a multiple of senses ({self.senses})"
            raise ValueError(f"{why}; choose another of the two, senses={near}, say")
        if not self.tie or self.output_bias:
            raise ValueError("a Backpack has one table for all (tie) and no bias (output_bias); leave both out")
        if self.labels:
            raise ValueError(f"a Backpack says words, not classes; take kind {self.encoder} to classify")
        body = self.contextualiser()
        for name in _own_fields(BackpackConfig):  # what nobody said is as the encoder has it
            if getattr(self, name) is None and hasattr(body, name):
                setattr(self, name, getattr(body, name))
        if self.encoder != "transformer-decoder":
            if self.max_length not in (None, 512):
                raise ValueError(f"max_length means nothing where encoder is {self.encoder}; leave it out")
            self.max_length = None

    def contextualiser(self) -> NeuralConfig:
        """The settings of the encoder alone."""
        known, cls = {f.name for f in fields(CONFIGS[self.encoder])}, CONFIGS[self.encoder]
        said: dict[str, Any] = {}
        for name in (f.name for f in fields(self) if f.name not in OWN):
            value = getattr(self, name)
            if name in known and (value is not None or name == "max_length"):
                said[name] = value
            elif name not in known and value is not None and name != "max_length":
                raise ValueError(f"{name} means nothing where encoder is {self.encoder}; leave it out")
        return cls(**said)


def _own_fields(cls: type) -> list[str]:
    """Fields that a settings class adds to those of every language model."""
    return [f.name for f in fields(cls) if f.name not in {g.name for g in fields(LanguageConfig)}]


GPT2: dict[str, Any] = {
    "kind": "transformer-decoder",
    "dim": 768,
    "layers": 12,
    "heads": 12,
    "norm": "pre",
    "activation": "gelu-tanh",
    "positions": "learned",
    "max_length": 1024,
    "tie": True,
    "output_bias": False,
    "scale_embedding": False,
    "initial": "normal",
    "dropout": 0.1,
    "attention_dropout": 0.1,
}
"""The shape of GPT-2 small (Radford et al. 2019), not its weights: with its 50,257 tokens, 124,439,808 parameters."""

BERT: dict[str, Any] = {
    "kind": "transformer-encoder",
    "dim": 768,
    "layers": 12,
    "heads": 12,
    "norm": "post",
    "epsilon": 1e-12,
    "activation": "gelu",
    "positions": "learned",
    "max_length": 512,
    "tie": True,
    "output_bias": True,
    "scale_embedding": False,
    "initial": "normal",
    "token_types": 2,
    "embedding_norm": True,
    "transform": True,
    "pooler": True,
    "dropout": 0.1,
    "attention_dropout": 0.1,
}
"""BERT base (Devlin et al. 2019): with its 30,522 tokens, 109,482,240 parameters without the head that guesses words,
the pooler included."""

NeuralConfig = (
    AveragingConfig
    | WindowConfig
    | RnnConfig
    | GruConfig
    | LstmConfig
    | ConvolutionConfig
    | TransformerDecoderConfig
    | TransformerEncoderConfig
    | BackpackConfig
)

CONFIGS: dict[str, type[NeuralConfig]] = {
    "dan": AveragingConfig,
    "window": WindowConfig,
    "rnn": RnnConfig,
    "gru": GruConfig,
    "lstm": LstmConfig,
    "conv": ConvolutionConfig,
    "transformer-decoder": TransformerDecoderConfig,
    "transformer-encoder": TransformerEncoderConfig,
    "backpack": BackpackConfig,
}
"""By kind."""


def share(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise ValueError(f"{name} is {value}; it must be at least 0 and below 1")
