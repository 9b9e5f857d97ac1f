"""How a translator does on text with references: its scores, and how fast it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
        scores = [f"BLEU {figure(self.bleu)}", f"chrF {figure(self.chrf)}"]
        scores += [] if self.ter is None else [f"TER {figure(self.ter)}"]
        beside = [f"beside: BLEU {figure(self.beside.bleu)}"] if self.beside is not None else []
        tests = [] if self.significance is None else [f"p {one.p:.3g}" for one in self.significance.scores[:1]]
        said = [f"loss {figure(self.loss, '.3f')}", count(self.lines, "line"), self.search]
        return brief("Evaluation", None, *scores, *said, *beside, *tests)

    def __str__(self) -> str:
        return "\n".join(self.report())

    def report(self, names: Sequence[str] = ("first", "second")) -> Iterator[str]:
        """Scores, and where it was asked for how they compare; names: those of the two models."""
        yield f"BLEU {figure(self.bleu)}  {self.bleu_signature}"
        yield f"chrF {figure(self.chrf)}  {self.chrf_signature}"
        if self.ter is not None:
            yield f"TER  {figure(self.ter)}  {self.ter_signature}"
        yield f"loss {figure(self.loss, '.4f')}  perplexity {figure(self.perplexity, '.3f')}"
        speed = f"{self.lines_per_second:.1f} lines/s"
        yield f"{count(self.lines, 'line')}, {speed}, {self.search}, {self.device}"
        if self.significance is not None:
            yield from self.significance.table(names)

    def _repr_html_(self) -> str:
        rows = [
            ("BLEU", figure(self.bleu), self.bleu_signature),
            ("chrF", figure(self.chrf), self.chrf_signature),
            *([("TER", figure(self.ter), self.ter_signature or "")] if self.ter is not None else []),
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
        return table + ("" if self.significance is None else self.significance._repr_html_())
