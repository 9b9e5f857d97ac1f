"""Language models write several lines: past line ends where they learned from a stream, line by line otherwise."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

import anaphora
from anaphora.decoding.beam_search import DecodingConfig
from anaphora.decoding.drafts import ModelDraft, PromptDraft
from anaphora.decoding.generation import generate
from anaphora.decoding.speculative import generate_speculatively
from anaphora.errors import UserError
from anaphora.models.ngram.ngram_model import NgramModel
from anaphora.pipelines.text_model import TextModel
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD, UNK
from neural_folders import neural_folder
from ngram_folders import ngram_folder
from ngram_texts import fitted

VOCABULARY = 6
TEXTS = [[4, 5], [4], [5, 5, 4], [], [5, 4]]
GREEDY = DecodingConfig(beam=1, length_penalty=0.0)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("lines")
    stream: dict[str, Any] = {"boundaries": "stream"}
    bpe: dict[str, Any] = {"kind": "bpe", "vocabulary": 280, "fallback": "bytes", "split": "punctuation"}
    return {
        "ngram": ngram_folder(root / "ngram", **stream),
        "lstm": neural_folder(root / "lstm", "lstm", **stream),
        "short": neural_folder(root / "short", "transformer-decoder", max_length=9, **stream),
        "other": neural_folder(root / "other", "transformer-decoder", max_length=6, seed=8, **stream),
        "bytes": neural_folder(root / "bytes", "transformer-decoder", tokenizer=bpe, **stream),
        "backpack": neural_folder(root / "backpack", "backpack", max_length=9, **stream),
        "separate": ngram_folder(root / "separate"),
        "lone": neural_folder(root / "lone", "transformer-decoder", max_length=128),
    }


STREAMS = ["ngram", "lstm", "short", "bytes"]


@pytest.fixture(scope="module", params=STREAMS)
def model(request: Any, folders: dict[str, Path]) -> TextModel:
    return anaphora.load(folders[request.param])


# A stream -----------------------------------------------------------------------------------------------------------


def follow(model: TextModel, prompt: list[int], tokens: int) -> list[int]:
    """The likeliest token again and again, the whole text read anew for each; of a text that is too long, what stands
    since half of what fits was forgotten."""
    text, holds = [BOS, *prompt], model.model.max_length or 1 << 20
    for _ in range(tokens):
        window = text
        if len(text) > holds:
            half = (holds - 1) // 2  # kept when it was full, and what came since
            since = (len(text) - holds - 1) % (holds - 1 - half) + 1
            window = [BOS, *text[-half - since :]]
        ids = torch.tensor([window])
        state = model.model.read(ids[:, :-1], torch.tensor([len(window) - 1]), len(window) + 1)
        scores, _ = model.model.step(ids[:, -1], state)
        scores[:, [PAD, BOS, UNK]] = -math.inf
        text.append(int(scores.argmax()))
    return text[len(prompt) + 1 :]


@pytest.mark.parametrize("prompt", ["", "the cat sat\na dog saw\n", "the cat sat on the mat " * 3])
def test_tokens_alone_go_past_line_ends(model: TextModel, prompt: str) -> None:
    one = model.generate(prompt, tokens=24, greedy=True, min_length=0)
    assert one.token_ids == follow(model, model._prompt(prompt).ids, 24)
    assert not one.finished
    assert one.text == one.prompt + one.continuation
    assert one.log_probability == pytest.approx(math.fsum(one.token_scores))


def test_drawn_texts_have_several_lines_and_the_models_probability(model: TextModel) -> None:
    for one in model.generate(["the cat", "a dog saw the"], tokens=60, seed=3, temperature=5):
        assert len(one.token_ids) == 60
        assert one.continuation.count("\n") == one.token_ids.count(EOS)
    assert model.tokenizer.kind == "bpe" or one.token_ids.count(EOS) > 1
    if model.model.max_length is None:
        ids = [*model._prompt("a dog saw the").ids, *one.token_ids]
        scores = model.model.score(torch.tensor([ids]), torch.tensor([len(ids)]))[0]
        assert one.token_scores == pytest.approx(scores[-60:].tolist(), abs=1e-3)


def test_fewer_lines_are_the_beginning_of_more(model: TextModel) -> None:
    prompts = ["the cat", "", "a dog\nthe mat"]
    texts = {count: model.generate(prompts, lines=count, tokens=30, seed=5) for count in (1, 2, 4)}
    assert model.generate(prompts, seed=5)[0].text.startswith(texts[1][0].text)
    for few, more in itertools.pairwise(texts.values()):
        for one, other in zip(few, more):
            assert other.token_ids[: len(one.token_ids)] == one.token_ids
            assert other.text.startswith(one.text)
    for count, found in texts.items():
        for one in found:
            assert one.token_ids.count(EOS) == count if one.finished else len(one.token_ids) == 30
            assert one.continuation.count("\n") == one.token_ids.count(EOS) - one.finished


@pytest.mark.parametrize(
    ("how", "lines"), [({}, None), ({"greedy": True}, 3), ({"stop": ["t\nth", "\n\n"]}, None), ({}, 3)]
)
def test_a_stream_is_the_text(model: TextModel, how: dict[str, Any], lines: int | None) -> None:
    one = model.generate("the cat", tokens=15, lines=lines, **how)
    stream = model.stream("the cat", tokens=15, lines=lines, **how)
    assert "".join(stream) == one.continuation
    other = stream.generation
    assert (other.text, other.finished, other.stop, other.limit) == (one.text, one.finished, one.stop, one.limit)


def test_a_stop_string_may_span_lines(folders: dict[str, Path]) -> None:
    model = anaphora.load(folders["ngram"])
    whole = model.generate("the", tokens=80, seed=2)
    at = whole.continuation.index("\n")
    stop = whole.continuation[at - 2 : at + 3]
    one = model.generate("the", tokens=80, seed=2, stop=[stop])
    assert one.stop == stop
    assert one.finished
    assert one.continuation == whole.continuation[: whole.continuation.index(stop)]


def test_a_line_end_is_never_forbidden_as_a_repetition(model: TextModel) -> None:
    for settings in ({"no_repeat_ngram": 1}, {"repetition_penalty": 50.0}):
        one = model.generate("the", tokens=5, greedy=True, **settings)
        assert len(one.token_ids) == 5
    one = model.generate("the", tokens=90, seed=4, no_repeat_ngram=1)
    words = [token for token in one.token_ids if token != EOS]
    assert len(set(words)) == len(words)
    assert one.token_ids.count(EOS) > 1 or model.tokenizer.kind == "bpe"


# All ways of saying, against every text that there is -----------------------------------------------------------------


@pytest.fixture(scope="module")
def counted() -> NgramModel:
    return fitted(TEXTS, VOCABULARY, order=3)


def probabilities(model: Any, tokens: int, lines: int) -> dict[tuple[int, ...], float]:
    """Each text of so many tokens or, if that is sooner, so many line ends: its probability, without ⟨unk⟩."""
    found: dict[tuple[int, ...], float] = {}

    def walk(text: tuple[int, ...], p: float) -> None:
        if len(text) == tokens or text.count(EOS) == lines:
            found[text] = p
            return
        state = model.start(1, 9)
        for token in (BOS, *text):
            said, state = model.step(torch.tensor([token]), state)
        share = said[0].double().exp()
        share[[PAD, BOS, UNK]] = 0
        for token, q in enumerate((share / share.sum()).tolist()):
            if q:
                walk((*text, token), p * q)

    walk((), 1.0)
    return found


@pytest.mark.parametrize("draft", [None, "prompt", "model"])
@pytest.mark.parametrize("lines", [2, 5])
def test_texts_are_drawn_as_often_as_the_model_says(counted: NgramModel, lines: int, draft: str | None) -> None:
    config, draws = DecodingConfig(sample=True), 300
    how: dict[str, Any] = {"tokens": 4, "samples": draws, "lines": lines}
    if draft is None:
        (found,) = generate(counted, [[]], config, **how)
    else:
        ahead = PromptDraft() if draft == "prompt" else ModelDraft(fitted(TEXTS[:2], VOCABULARY, order=2), config)
        (found,), _ = generate_speculatively(counted, ahead, [[]], config, **how)
    said = Counter((*one.tokens, *[EOS] * one.finished) for one in found)
    expected = probabilities(counted, 4, lines)
    assert said.keys() <= expected.keys()
    for text, p in expected.items():
        assert abs(said[text] / draws - p) <= 5 * math.sqrt(p * (1 - p) / draws) + 1e-9


@pytest.mark.parametrize("lines", [1, 2, 5])
def test_a_beam_wide_enough_finds_the_likeliest_text(counted: NgramModel, lines: int) -> None:
    config = DecodingConfig(beam=400, length_penalty=0.0, unknown=True)
    (found,) = generate(counted, [[]], config, tokens=4, samples=3, lines=lines)
    best: list[tuple[float, tuple[int, ...]]] = []
    for size in range(1, 5):
        for text in itertools.product([EOS, UNK, *range(4, VOCABULARY)], repeat=size):
            ended = text.count(EOS) == lines and text[-1] == EOS
            if ended or (lines == 5 and size == 4):
                score = counted.score(torch.tensor([text]), torch.tensor([size])).sum().item()
                best.append((score, text))
    best.sort(reverse=True)
    for one, (score, _) in zip(found, best):
        assert one.log_probability == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "draft"),
    [("short", "other"), ("short", "ngram"), ("lstm", "prompt"), ("ngram", "other"), ("backpack", "prompt")],
)
def test_a_draft_changes_nothing_but_the_speed(name: str, draft: str, folders: dict[str, Path]) -> None:
    """Across line ends, and where the model or its draft has to forget what no longer fits."""
    model = anaphora.load(folders[name])
    ahead = draft if draft == "prompt" else anaphora.load(folders[draft])
    prompts = ["the cat sat on the mat and the dog saw the log on the mat", ""]
    for settings in ({"tokens": 20}, {"tokens": 16, "lines": 3, "min_length": 9, "no_repeat_ngram": 3}):
        alone = model.generate(prompts, greedy=True, **settings)
        helped = model.generate(prompts, greedy=True, draft=ahead, **settings)
        for one, other in zip(alone, helped):
            assert (other.token_ids, other.text, other.finished) == (one.token_ids, one.text, one.finished)
            assert other.speculation is not None
        again = model.generate(prompts[0], draft=ahead, seed=2, **settings)
        heard = model.stream(prompts[0], draft=ahead, seed=2, **settings)
        assert "".join(heard) == again.continuation


def test_a_text_does_not_depend_on_its_batch(folders: dict[str, Path]) -> None:
    model = anaphora.load(folders["short"])
    prompts = ["the cat", "", "the", "the cat sat on the mat and the dog saw the log"]
    together = model.generate(prompts, tokens=15, samples=2, seed=9)
    again = model.generate(prompts[:2], tokens=15, samples=1, seed=9)
    assert [[one.token_ids for one in own] for own in again] == [[own[0].token_ids] for own in together[:2]]


# Separate lines -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"draft": "prompt"}, {"stream": True}])
@pytest.mark.parametrize("name", ["separate", "lone"])
def test_separate_lines_are_texts_of_their_own(name: str, how: dict[str, Any], folders: dict[str, Path]) -> None:
    model, how = anaphora.load(folders[name]), {"temperature": 8 if name == "lone" else 1, **how}
    if how.pop("stream", False):
        heard = model.stream("the cat", lines=4, seed=3, **how)
        text = "".join(heard)
        one = heard.generation
        assert one.continuation == text
    else:
        one = model.generate("the cat", lines=4, seed=3, **how)
    assert one.finished
    assert one.text.count("\n") == 3
    assert len(set(one.text.split("\n")[1:])) > 1  # another seed for each
    lines, ends = one.text.split("\n"), [place for place, id in enumerate(one.token_ids) if id == EOS]
    assert all(lines)
    for line, begin, end in zip(lines[1:], ends, ends[1:]):
        (scored,) = model.score([line])
        assert one.token_ids[begin + 1 : end + 1] == scored.token_ids
        assert one.token_scores[begin + 1 : end + 1] == pytest.approx(scored.token_scores, abs=1e-4)
    assert model.generate("the cat", tokens=100, seed=3, **how).text == lines[0]


def test_a_separate_line_that_is_cut_off_is_the_last(folders: dict[str, Path]) -> None:
    model = anaphora.load(folders["separate"])
    for one in model.generate(["the"] * 20, lines=3, tokens=4):
        *_, last = one.text.split("\n")
        cut = one.token_ids[-4:].count(EOS) == 0
        assert cut != one.finished
        assert not cut or (one.limit == len(one.token_ids) and last)


def test_lines_that_cannot_be_asked_for(folders: dict[str, Path]) -> None:
    for name in ("ngram", "separate"):
        with pytest.raises(UserError, match=r"0 lines are asked for; ask for 1 to"):
            anaphora.load(folders[name]).generate("the", lines=0)
