"""What settings cannot mean together: refused in a sentence, before any work is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anaphora.config import build
from anaphora.errors import UserError, option
from anaphora.training.training_settings import RISK, SEQUENCE, TrainingConfig

if TYPE_CHECKING:
    from anaphora.tasks.recipes import RunConfig


def check(config: RunConfig) -> None:
    """The settings of a translator's run, all of them."""
    check_spelling(config)
    check_bidirectional(config)
    if config.training.consistency and not has_dropout(config):
        raise UserError(
            "training.consistency compares two draws of dropout, but there is no dropout",
            cure="set model.dropout=0.3, say, or training.consistency=0",
        )
    if config.training.guided_alignment and getattr(config.translator, "normalizer", "") == "none":
        raise UserError(
            "training.guided_alignment teaches shares of attention, and with model.normalizer=none there are none",
            cure="set training.guided_alignment=0, or model.normalizer=softmax",
        )
    if config.decoding.coverage_penalty and not getattr(config.model, "attends", True):  # the search would say so late
        raise UserError(
            "decoding.coverage_penalty needs a model that attends, and this one gives no attention",
            cure="set decoding.coverage_penalty=0",
        )


def check_objective(said: Mapping[str, Any], *, started: bool) -> None:
    """Whole translations are learned from by a model that can make some; `said` is section `training` as it was said,
    by the recipe or by the user."""
    training = build(TrainingConfig, said, section="training")
    objective, sequence = training.objective, training.objective != "likelihood"
    for key in SEQUENCE:
        needed = "minimum-risk" if key in RISK else "reinforce"
        if key in said and (not sequence or (key in RISK and objective != needed)):
            raise UserError(
                f"training.{key} means nothing with training.objective={objective}",
                cure=f"leave it out, or set training.objective={needed}",
            )
    if sequence and not started:
        raise UserError(
            f"training.objective={objective} learns from a model's own translations, and there is no model yet",
            cure=f"train one by likelihood first, then start from it: {option('start_from', 'MODEL')}",
        )
    if sequence and training.guided_alignment:
        raise UserError(
            f"training.guided_alignment is about given translations, and training.objective={objective} about the "
            "model's own",
            cure="leave one of them out",
        )
    if sequence and training.consistency and not training.likelihood_weight:
        raise UserError(
            "training.consistency is a part of the likelihood, and training.likelihood_weight=0 leaves that out",
            cure="leave one of them out",
        )


def check_spelling(config: RunConfig) -> None:
    """ByteNet reads letters: what it knows of a word it knows by how the word is spelled."""
    if getattr(config.model, "spells", False) and config.tokenizer.kind not in SPELT:
        raise UserError(
            f"{config.model.kind} translates letter by letter, and tokenizer.kind={config.tokenizer.kind} makes words "
            "or subwords",
            cure=f"set tokenizer.kind=byte (or character), or take {option('recipe', 'convs2s')}, which reads subwords",
        )


SPELT = ("byte", "character")
"""Kinds of tokenizers that spell."""


def check_bidirectional(config: RunConfig) -> None:
    """Both directions can be learned by one model where both languages have one vocabulary, by likelihood."""
    training = config.training
    if not training.bidirectional_epochs:
        return
    if not config.tokenizer.shared:
        raise UserError(
            "training.bidirectional_epochs turns pairs round, and with tokenizer.shared=false each language has tokens "
            "of its own",
            cure="set training.bidirectional_epochs=0, or tokenizer.shared=true",
        )
    for name in ("guided_alignment", "objective"):
        if getattr(training, name) not in (0, "likelihood"):
            raise UserError(
                f"training.{name}={getattr(training, name)} is about one direction, and training.bidirectional_epochs "
                "is about both",
                cure="leave one of them out",
            )


def has_dropout(config: RunConfig) -> bool:
    shares = ("dropout", "attention_dropout", "activation_dropout")
    return any(getattr(config.translator, name, 0.0) for name in shares)
