"""Every option trains two updates on twenty lines, then translates, scores and averages (Sockeye's idea).

A case changes some options that do not concern each other. That each does what it says is the business of the unit
tests; here everything must run through the whole house: prepare, train, validate, save, load, translate, score,
evaluate, average, info.
"""

from __future__ import annotations

import json
import math
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

import anaphora
from anaphora.data.data_settings import TranslationData
from anaphora.decoding.beam_search import DecodingConfig
from anaphora.models.translation.transformer_translator import TransformerConfig
from anaphora.tokenizers.tokenizer import TokenizerConfig
from anaphora.training.training_settings import TranslationTraining
from micro_runs import MICRO, pairs, write_pairs

FEW_WORDS = {"tokenizer.kind": "word", "tokenizer.fallback": "unk", "tokenizer.vocabulary": 12}
TRAINED: list[dict[str, Any]] = [
    # A run has an option of every sort that do not concern each other: read down, each sort has all its values.
    {"tokenizer.kind": "bpe", "model.norm": "post", "model.attention": "sdpa", "training.optimizer": "adam"}
    | {"training.schedule": "inverse-sqrt", "training.clip_norm": 0, "training.compile": "off"},
    {"tokenizer.kind": "unigram", "model.positions": "learned", "model.activation": "gelu"}
    | {"training.optimizer": "adamw", "training.weight_decay": 0.1, "training.label_smoothing": 0}
    | {"training.schedule": "cosine", "training.final_rate": 0.1, "training.samples": 0},
    {"tokenizer.kind": "word", "model.positions": "sinusoidal-concatenated", "model.dropout": 0.3}
    | {"training.optimizer": "sgd", "training.momentum": 0.9, "training.schedule": "linear"},
    {"tokenizer.kind": "character", "model.key_value_heads": 1, "model.window": 4, "model.positions": "rotary"}
    | {"training.optimizer": "asgd", "training.trigger": 1, "training.schedule": "constant"}
    | {"training.warmup_steps": 0},
    {"tokenizer.kind": "byte", "tokenizer.vocabulary": None, "model.positions": "alibi", "training.precision": "fp32"}
    | {"training.beta1": 0.8, "training.beta2": 0.9, "training.epsilon": 1e-6, "training.accumulate": 2},
    {"tokenizer.kind": "word", "tokenizer.fallback": "unk", "tokenizer.split": "blanks", "tokenizer.unknown": "the"}
    | {"model.positions": "relative", "model.score": "bilinear", "training.precision": "bf16"},
    {"tokenizer.kind": "word", "tokenizer.split": "whitespace", "model.positions": "none", "training.ema": 0.9}
    | {"data.hold_out": 0, "training.keep": 1, "training.average": 1},
    {"tokenizer.kind": "word", "tokenizer.fallback": "unk", "tokenizer.minimum_count": 3, "model.window": 3}
    | {"training.metric": "bleu", "training.seed": 7},
    {"tokenizer.kind": "character", "tokenizer.fallback": "unk", "tokenizer.minimum_count": 3}
    | {"model.score": "dot", "model.tie": "target", "training.patience": 1},
    {"tokenizer.kind": "bpe", "tokenizer.dropout": 0.1, "training.guided_alignment": 0.1}
    | {"training.consistency": 1.0, "model.dropout": 0.1},
    {"tokenizer.kind": "unigram", "tokenizer.dropout": 0.1, "model.score": "additive", "model.attention_dropout": 0.2}
    | {"training.guided_alignment": 0.1},
    {"tokenizer.vocabulary": None, "model.score": "additive", "model.positions": "learned", "model.tie": "none"}
    | {"decoding.beam": 2, "decoding.length_penalty": 1.0},
    {"tokenizer.shared": False, "model.attention": "reference", "model.decoder_layers": 2}
    | {"training.average": 2, "decoding.batch_sentences": 2, "decoding.batch_tokens": 40},
    {"tokenizer.shared": False, "tokenizer.kind": "word", "model.tie": "none", "model.experts": 4},
    {"data.hold_out": 5, "data.seed": 3, "data.max_length": 30, "data.tokenizer_lines": 7}
    | {"model.attention_dropout": 0.2, "model.activation_dropout": 0.2, "model.attention": "reference"},
    {"model.kind": "transformer", "model.heads": 4, "model.attention_dropout": 0.2, "training.cuda_graphs": "off"}
    | {"model.window": 3, "model.positions": "alibi", "model.key_value_heads": 2},
    {"model.normalizer": "none"},
    {"model.normalizer": "none", "model.score": "bilinear", "model.attention_dropout": 0.2}
    | {"training.metric": "chrf", "training.validation_beam": 2},
    {"model.normalizer": "none", "model.score": "additive", "training.precision": "bf16"},
    {"model.experts": 3, "model.experts_per_token": 3, "model.expert_balance": 0.5, "training.precision": "bf16"},
    {"model.experts": 4, "model.experts_every": 2, "model.layers": 2, "training.guided_alignment": 0.1},
    {"training.bidirectional_epochs": 1, "training.consistency": 1.0, "model.dropout": 0.1},
    {"training.consistency": 5.0, "model.dropout": 0.1, "model.norm": "post", "model.positions": "relative"},
    {"training.guided_alignment": 0.1, "training.guided_layer": 0, "training.guided_head": 1},
    # how a run ends
    {"training.max_steps": None, "training.epochs": 0.5},
    {"training.max_steps": None, "training.epochs": 2},
    {"training.max_steps": None, "training.max_tokens": 300, "training.schedule": "cosine"},
    {"training.max_steps": None, "training.max_minutes": 0.0005},
    # words that are not known
    {**FEW_WORDS, "decoding.replace_unknown": "dictionary", "decoding.dictionary_threshold": 0.2},
    {**FEW_WORDS, "decoding.replace_unknown": "copy", "tokenizer.shared": False},
    {**FEW_WORDS, "decoding.replace_unknown": "none", "decoding.unknown": True, "tokenizer.split": "blanks"},
]


def name(settings: dict[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in settings.items())


def exercise(run: Path, *, average: bool = True) -> None:
    """All that can be done with a trained folder."""
    model = anaphora.load(run, "cpu")
    lines = ["the old dog sees a cat.", "", "Ünseen wörds 猫 🙂", "a\u2028b"]
    translations = model.translate(lines)
    assert len(translations) == len(lines)
    assert translations[1].text == ""
    for translation in translations:
        assert len(translation.text.splitlines()) <= 1
        assert math.isfinite(translation.score)
    for translation, aligned in zip(translations, model.translate(lines, align=True)):
        assert aligned.text == translation.text
        assert len(aligned.alignment.target) == len(aligned.alignment.weights)
    sources, targets = zip(*pairs(3))
    for scored in model.score(sources, targets):
        assert scored.problem is None
        assert scored.log_probability < 0
        assert math.fsum(value for _, value in scored.token_scores) == pytest.approx(scored.log_probability)
    found = model.evaluate(sources, targets)
    assert 0 <= found.bleu <= 100
    assert math.isfinite(found.loss)
    assert json.dumps(model.info(), default=str)
    if average:
        kept = len(list((run / "checkpoints").glob("step-*")))
        done = anaphora.average(run, min(2, kept), device="cpu")
        assert len(done["averaged"]) == min(2, kept)
        assert anaphora.load(run, "cpu").translate(lines[0]).n_best


@pytest.mark.parametrize("settings", TRAINED, ids=name)
def test_option_of_training(settings: dict[str, Any], tmp_path: Path, corpus: dict[str, Path]) -> None:
    merged = {**MICRO, **settings}
    # words, characters and the two vocabularies of few lines may not reach the asked size
    outcome = anaphora.train(tmp_path / "run", **corpus, settings=merged, device="cpu")
    assert outcome.steps >= 1
    if merged["training.max_steps"] is not None:
        assert outcome.steps == 2
    config = anaphora.load(tmp_path / "run", "cpu").config
    for key, value in settings.items():
        section, _, field = key.partition(".")
        assert getattr(getattr(config, section), field) == value
    if "data.hold_out" in settings and settings["data.hold_out"] == 0:
        assert outcome.validation == {}
    else:
        assert math.isfinite(outcome.validation["loss"])
        assert "bleu_signature" in outcome.validation
    again = anaphora.train(tmp_path / "run", **corpus, settings=merged, device="cpu")  # the same call: nothing to do
    assert again.steps == outcome.steps
    exercise(tmp_path / "run")


REINFORCED: list[dict[str, Any]] = [
    {"training.objective": "reinforce", "training.candidate_dropout": True, "training.optimizer": "adamw"},
    {"training.objective": "reinforce", "training.reward": "bleu", "training.sample_temperature": 0.8}
    | {"training.likelihood_weight": 0, "decoding.unknown": True},
    {"training.objective": "reinforce", "training.candidates": 2, "training.accumulate": 2, "tokenizer.dropout": 0.1},
    {"training.objective": "reinforce", "training.likelihood_weight": 0.1, "training.consistency": 1.0},
    {"training.objective": "reinforce", "training.precision": "bf16", "training.ema": 0.9, "training.metric": "loss"},
    {"training.objective": "minimum-risk", "training.reward": "chrf", "training.risk_sharpness": 0.5}
    | {"training.risk_reference": True},
    {"training.objective": "minimum-risk", "data.hold_out": 0, "decoding.max_length": 4},
]


@pytest.mark.parametrize("settings", REINFORCED, ids=name)
def test_option_of_learning_from_its_own_translations(
    settings: dict[str, Any], tmp_path: Path, corpus: dict[str, Path], micro: Path
) -> None:
    ways = {key: value for key, value in MICRO.items() if key.startswith("training.")}
    merged = {**ways, "model.dropout": 0.1, "training.candidates": 3, **settings}
    files: Any = corpus
    outcome = anaphora.train(tmp_path / "run", **files, start_from=micro, settings=merged, device="cpu")
    assert outcome.steps == 2
    config = anaphora.load(tmp_path / "run", "cpu").config
    for key, value in settings.items():
        section, _, field = key.partition(".")
        assert getattr(getattr(config, section), field) == value
    assert ("gleu" in outcome.validation) == ("data.hold_out" not in settings)
    exercise(tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"model.score": "additive"}, {"model.normalizer": "none"}], ids=name)
def test_compiled_training(changes: dict[str, Any], tmp_path: Path, corpus: dict[str, Path]) -> None:
    settings = {**MICRO, **changes, "training.compile": "on", "model.dropout": 0.0}
    compiled = anaphora.train(tmp_path / "run", **corpus, settings=settings, device="cpu")
    plain = anaphora.train(tmp_path / "plain", **corpus, settings={**settings, "training.compile": "off"}, device="cpu")
    assert compiled.validation["loss"] == pytest.approx(plain.validation["loss"], rel=1e-4)
    exercise(tmp_path / "run")


def test_validation_files(tmp_path: Path, corpus: dict[str, Path]) -> None:
    valid = write_pairs(tmp_path, 6, seed=9, name="valid")
    files = {**corpus, "valid_source": valid["source"], "valid_target": valid["target"]}
    outcome = anaphora.train(tmp_path / "run", **files, settings=MICRO, device="cpu")
    sources, targets = zip(*pairs(6, seed=9))
    model = anaphora.load(tmp_path / "run", "cpu")
    assert model.evaluate(sources, targets).loss == pytest.approx(outcome.validation["loss"], rel=1e-5)
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["trained_on"]["pairs"] == 20
    exercise(tmp_path / "run")


def test_held_out_pairs_are_not_trained_on(tmp_path: Path) -> None:
    """De-duplicated: a line that also stands elsewhere in the corpus is in one part only."""
    files = write_pairs(tmp_path, 40)
    for file in files.values():
        file.write_text(file.read_text() * 2)
    anaphora.train(tmp_path / "run", **files, settings={**MICRO, "data.hold_out": 8}, device="cpu")
    from anaphora.data.preparation import open_prepared

    prepared = open_prepared(tmp_path / "run" / "data")
    assert prepared.valid is not None
    held = {
        tuple(prepared.valid.text(side, row) for side in ("source", "target")) for row in range(len(prepared.valid))
    }
    kept = {
        tuple(prepared.train.text(side, row) for side in ("source", "target")) for row in range(len(prepared.train))
    }
    assert len(held) == 8
    assert not held & kept


# Decoding -----------------------------------------------------------------------------------------------------------

DECODED: list[dict[str, Any]] = [
    {"split_sentences": "always"},
    {"beam": 1},
    {"beam": 3, "n_best": 3},
    {"beam": 3, "length_penalty": 0.0},
    {"beam": 3, "length_penalty": 2.0},
    {"coverage_penalty": 0.2},
    {"no_repeat_ngram": 2},
    {"min_length": 4},
    {"max_length": 3},
    {"max_length_ratio": 0.5, "max_length_extra": 2},
    {"unknown": True},
    {"sample": True},
    {"sample": True, "n_best": 3},
    {"sample": True, "temperature": 0.5},
    {"sample": True, "top_k": 5},
    {"sample": True, "top_p": 0.5},
    {"sample": True, "min_p": 0.2},
    {"sample": True, "epsilon": 0.9},
    {"mbr": "chrf", "mbr_samples": 6, "epsilon": 0.0, "n_best": 3},
    {"mbr": "gleu", "mbr_samples": 4, "mbr_candidates": "samples"},
    {"mbr": "bleu", "mbr_candidates": "beam", "beam": 3},
    {"repetition_penalty": 1.5},
    {"stop": ["e"]},
    {"sample": True, "seed": 5},
    {"batch_tokens": 20},
    {"batch_sentences": 1},
    {"max_source_tokens": 5},
]
LINES = [source for source, _ in pairs(5, seed=4)]


@pytest.fixture(scope="module")
def model(micro: Path) -> anaphora.TranslationModel:
    return anaphora.load(micro, "cpu")


@pytest.mark.parametrize("settings", DECODED, ids=name)
def test_option_of_decoding(settings: dict[str, Any], model: anaphora.TranslationModel) -> None:
    translations = model.translate(LINES, **settings)
    assert [t.source for t in translations] == LINES
    for translation in translations:
        words = [token for token, _ in translation.token_scores]
        assert len(translation.n_best) <= settings.get("n_best", 1)
        if "min_length" in settings:
            assert len(words) > settings["min_length"]
        if "max_length" in settings:
            assert len(words) <= settings["max_length"]
        if "no_repeat_ngram" in settings:
            two = list(pairwise(words))
            assert len(two) == len(set(two))
        if "max_source_tokens" in settings:
            assert translation.pieces > 1
        if "stop" in settings:
            assert not any(text in translation.text for text in settings["stop"])
        if "mbr" in settings:
            assert 0 <= translation.score <= 1  # how like the others it is, no longer a log-probability
        ranks = [(not candidate.finished, -candidate.score) for candidate in translation.n_best]
        assert ranks == sorted(ranks)
    if "n_best" in settings:
        assert all(len(translation.n_best) == settings["n_best"] for translation in translations)
    if settings.get("mbr_candidates") == "beam":  # it chooses among what the beam found
        lists = model.translate(LINES, beam=settings["beam"], n_best=settings["beam"])
        assert all(t.text in {one.text for one in found.n_best} for t, found in zip(translations, lists))
    if "epsilon" in settings and settings.get("sample"):  # no token is so probable: the likeliest alone is left
        assert [t.text for t in translations] == [t.text for t in model.translate(LINES, beam=1)]
    again = model.translate(LINES[::-1], **settings)[::-1]
    if not DecodingConfig(**settings).draws:  # samples belong to the line's number
        assert [t.text for t in again] == [t.text for t in translations]


def test_a_forced_prefix(model: anaphora.TranslationModel) -> None:
    prefixes = ["der alte", "", "Straße 猫", "x", "ein"]
    for prefix, translation in zip(prefixes, model.translate(LINES, prefixes=prefixes)):
        assert translation.text.startswith(prefix)


def test_sampling_is_repeatable_and_follows_its_seed(model: anaphora.TranslationModel) -> None:
    first, again, other = ([t.text for t in model.translate(LINES, sample=True, seed=s)] for s in (1, 1, 2))
    assert first == again
    assert first != other


def test_loading_and_translating_use_up_no_random_numbers(micro: Path) -> None:
    before = torch.get_rng_state()
    anaphora.load(micro, "cpu").translate(LINES, sample=True)
    assert torch.equal(torch.get_rng_state(), before)


# That none is forgotten ---------------------------------------------------------------------------------------------


def test_every_setting_is_exercised() -> None:
    """A new setting must join the lists above."""
    elsewhere = {
        "data": {
            "source",
            "target",
            "valid_source",
            "valid_target",
            "paths",
        },  # test_validation_files, test_shared_names.py
        "tokenizer": {"words"},  # test_a_vocabulary_of_ones_own
        "model": {
            *("dim", "layers", "feed_forward", "max_length"),  # MICRO
            "embedding_from",  # tasks/test_initial_vectors.py: a translator begins with vectors, and trains
            "encoder",  # test_recurrent_options.py
        },
        "training": {"learning_rate", "batch_tokens", "checkpoint_every", "log_every"},  # MICRO
        "decoding": {"dictionary"},  # test_unknown_words.py
    }
    sections = {
        "data": TranslationData,
        "tokenizer": TokenizerConfig,
        "model": TransformerConfig,
        "training": TranslationTraining,
        "decoding": DecodingConfig,
    }
    exercised = {key for case in (*TRAINED, *REINFORCED) for key in case} | {
        f"decoding.{key}" for case in DECODED for key in case
    }
    for section, cls in sections.items():
        for field in fields(cls):
            covered = f"{section}.{field.name}" in exercised or field.name in elsewhere.get(section, ())
            assert covered, f"{section}.{field.name} is tried by no integration test"
    assert all(key.partition(".")[2] in {f.name for f in fields(sections[key.partition(".")[0]])} for key in exercised)
