"""How a translator does on text with references: its scores, and how fast it was."""

from __future__ import annotations

from dataclasses import dataclass, field

from anaphora.decoding.translate import Translation
from anaphora.evaluation.by_length import LengthBin
from anaphora.evaluation.significance import PairedBootstrap
from anaphora.results import brief, count, figure, html_table


@dataclass
class Evaluation:
    """How a model does on text with references."""

    lines: int
    """That were translated."""
    bleu: float
    """BLEU of sacreBLEU, 0 to 100."""
    bleu_signature: str
    """sacreBLEU's, without which two numbers cannot be compared."""
    chrf: float
    """chrF of sacreBLEU, 0 to 100."""
    chrf_signature: str
    """sacreBLEU's."""
    loss: float
    """Nats a target token, end marks included; NaN if no line could be scored."""
    perplexity: float
    """e^loss."""
    lines_per_second: float
    """Translated."""
    beam: int
    """Hypotheses that the search kept."""
    search: str
    """How translations were searched for, in a few words."""
    device: str
    """On which it ran."""
    split_lines: int
    """Lines translated in pieces because they were too long, or of several sentences."""
    unscored_lines: int
    """Lines left out of the loss because a side was too long."""
    replaced_words: dict[str, int] | None
    """Unknown words that were replaced, by what (dictionary, copy); none if they are not."""
    by_length: list[LengthBin] | None = None
    """BLEU and chrF by the length of the source, where asked for."""
    ter: float | None = None
    """TER, lower is better, where asked for."""
    ter_signature: str | None = None
    """sacreBLEU's."""
    significance: PairedBootstrap | None = None
    """How it compares with another model on the same lines, where asked for."""
    beside: Evaluation | None = None
    """How that one does."""
    translations: list[Translation] = field(repr=False, default_factory=list)
    """What the model made of each line."""

    def __repr__(self) -> str:
        scores = f"BLEU {figure(self.bleu)}", f"chrF {figure(self.chrf)}", f"loss {figure(self.loss, '.3f')}"
        return brief("Evaluation", None, *scores, count(self.lines, "line"), self.search)

    def _repr_html_(self) -> str:
        rows = [
            ("BLEU", figure(self.bleu), self.bleu_signature),
            ("chrF", figure(self.chrf), self.chrf_signature),
            ("loss", figure(self.loss, ".3f"), "nats a token"),
            ("perplexity", figure(self.perplexity), ""),
            ("lines", f"{self.lines:,}", f"{self.lines_per_second:.1f} a second, {self.search}, on {self.device}"),
        ]
        table = html_table((), rows)
        if self.by_length:
            bins = [
                (f"{one.shortest}–{one.longest} words", f"{one.lines:,}", figure(one.bleu), figure(one.chrf))
                for one in self.by_length
            ]
            table += html_table(("source", "lines", "BLEU", "chrF"), bins)
        return table
