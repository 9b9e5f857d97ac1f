"""BLEU, chrF and TER by sacreBLEU, each with the signature that makes it comparable (Post 2018); mean GLEU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anaphora.errors import UserError, nearest

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.ter import TER


@dataclass(frozen=True)
class Score:
    value: float
    signature: str
    """sacreBLEU's account of how the number was made; it belongs beside every published figure."""


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str = "13a", lowercase: bool = False
) -> Score:
    """Corpus BLEU, 0 to 100: how many of the hypotheses' word 1- to 4-grams are in the references, times brevity."""
    metric = bleu_metric(tokenize, lowercase=lowercase)
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(score.score, str(metric.get_signature()))


def bleu_metric(tokenize: str = "13a", *, lowercase: bool = False) -> BLEU:
    """sacreBLEU's BLEU with one of its tokenizers."""
    from sacrebleu.metrics.bleu import BLEU

    if tokenize not in BLEU.TOKENIZERS:
        raise UserError(f"sacreBLEU has no tokenizer {tokenize!r}", cure=nearest(tokenize, BLEU.TOKENIZERS))
    try:
        return BLEU(
            tokenize=tokenize,
            lowercase=lowercase,
            effective_order=False,
            force=tokenize == "none",  # whoever says so knows that the text is tokenized
        )
    except (RuntimeError, ImportError) as error:  # some tokenizers need a package of their own
        raise UserError(f"sacreBLEU's tokenizer {tokenize!r} cannot be used ({error})", cure="install it") from None


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Corpus chrF2, 0 to 100: F-score of character 1- to 6-grams; it needs no word boundaries."""
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(score.score, str(metric.get_signature()))


def ter(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Corpus TER: edits that make the references of the hypotheses, shifts of phrases among them, in percent of the
    references' words; lower is better. It takes milliseconds a line, and of long lines a second."""
    metric = ter_metric()
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(score.score, str(metric.get_signature()))


def ter_metric() -> TER:
    """sacreBLEU's TER, tercom's without regard to case."""
    from sacrebleu.metrics.ter import TER

    return TER()


def gleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """The mean of the sentences' GLEU, 0 to 100 (evaluation/sentence_scores.py); words are those of sacreBLEU's 13a."""
    from anaphora.evaluation.sentence_scores import sentence_gleu

    return 100 * float(sentence_gleu(hypotheses, references).mean()) if len(hypotheses) else 0.0


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Share of hypotheses that are the reference, letter for letter."""
    if not hypotheses:
        return 0.0
    return sum(h == r for h, r in zip(hypotheses, references, strict=True)) / len(hypotheses)
