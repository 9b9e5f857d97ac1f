"""Neural models by their folder: they generate, stream, score, fill in, encode and classify; what one cannot do it
says."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anaphora
from anaphora.errors import UserError
from anaphora.pipelines.text_model import TextModel
from anaphora.tokenizers.tokenizer import BOS, EOS, UNK
from neural_folders import SHAPES, neural_folder
from ngram_folders import VERSE, ngram_folder

CAUSAL = [kind for kind in SHAPES if kind != "transformer-encoder"]
BYTES = {"kind": "byte"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Read only."""
    root = tmp_path_factory.mktemp("neural")
    made = {kind: neural_folder(root / kind, kind) for kind in SHAPES}
    made["bytes"] = neural_folder(root / "bytes", "lstm", tokenizer=BYTES)
    made["bytes masked"] = neural_folder(root / "bytes-masked", "transformer-encoder", tokenizer=BYTES)
    made["bpe"] = neural_folder(root / "bpe", "transformer-decoder", tokenizer={"kind": "bpe", "vocabulary": 280})
    made["bpe masked"] = neural_folder(
        root / "bpe-m", "transformer-encoder", tokenizer={"kind": "bpe", "vocabulary": 300}
    )
    made["punctuation masked"] = neural_folder(
        root / "p-m",
        "transformer-encoder",
        ["the cat sat.", "a dog, x ran!", "cat and dog"],
        tokenizer={"kind": "word"},
    )
    made["stream"] = neural_folder(
        root / "stream", "transformer-decoder", boundaries="stream", training={"context": 8, "stride": 3}
    )
    made["packed"] = neural_folder(root / "packed", "transformer-decoder", boundaries="packed")
    for kind in ("dan", "lstm", "transformer-encoder"):
        made[f"{kind} classifier"] = neural_folder(root / f"c-{kind}", kind, labels=["sad", "glad", "mad"])
    made["ngram"] = ngram_folder(root / "ngram", order=4)
    made["bytes ngram"] = ngram_folder(root / "bytes-ngram", order=4, tokenizer=BYTES)
    return made


@pytest.fixture(params=CAUSAL)
def model(request: pytest.FixtureRequest, folders: dict[str, Path]) -> TextModel:
    return loaded(folders[request.param])


def loaded(folder: Path) -> TextModel:
    found = anaphora.load(folder, "cpu")
    assert isinstance(found, TextModel)
    return found


# Generating ---------------------------------------------------------------------------------------------------------


OPTIONS: list[dict[str, Any]] = [
    {"seed": 3},
    {"seed": 4, "temperature": 0.7, "top_k": 5, "min_p": 0.1},
    {"greedy": True},
    {"seed": 5, "repetition_penalty": 1.5, "min_length": 6},
    {"seed": 6, "stop": ["at s", "dog"]},
    {"greedy": True, "stop": ["mat"]},
    {"seed": 7, "no_repeat_ngram": 2, "unknown": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_stream_is_the_text(model: TextModel, options: dict[str, Any]) -> None:
    for prompt in ("the cat", "", "a dog "):
        one = model.generate(prompt, tokens=20, **options)
        stream = model.stream(prompt, tokens=20, **options)
        pieces = list(stream)
        assert "".join(pieces) == one.continuation
        assert all(pieces)
        heard = stream.generation
        assert (heard.text, heard.finished, heard.stop, heard.limit) == (one.text, one.finished, one.stop, one.limit)
        assert heard.token_ids == one.token_ids
        assert heard.token_scores == pytest.approx(one.token_scores, abs=1e-5)


@pytest.mark.parametrize("name", ["bytes", "bpe", "bytes ngram"])
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 999), stops=st.lists(st.text(" aehst", min_size=1, max_size=2), max_size=2))
def test_a_stream_of_subwords_is_the_text(name: str, seed: int, stops: list[str], folders: dict[str, Path]) -> None:
    """Random bytes are no UTF-8 most of the time, and stop strings span tokens."""
    model = loaded(folders[name])
    one = model.generate("the €", tokens=20, seed=seed, stop=stops)
    stream = model.stream("the €", tokens=20, seed=seed, stop=stops)
    assert "".join(stream) == one.continuation
    assert not any(stop in one.continuation for stop in stops)
    if one.stop is not None:
        assert one.stop in stops
        assert one.finished


def test_the_prompts_of_a_batch_are_heard_one_by_one(model: TextModel) -> None:
    prompts = ["the cat", "", "a dog and the"]
    batch = model.generate(prompts, tokens=12, seed=2)
    for place, (prompt, one) in enumerate(zip(prompts, batch)):
        assert "".join(model.stream(prompt, tokens=12, seed=2, place=place)) == one.continuation


def test_a_stream_is_lazy_and_can_be_left(folders: dict[str, Path]) -> None:
    model = loaded(folders["lstm"])
    stream = model.stream("the cat", tokens=1000, min_length=500, seed=1)
    first = next(stream)
    assert first.startswith(" ")
    with pytest.raises(ValueError, match="has not come to its end"):
        _ = stream.generation
    stream.close()
    assert list(stream) == []


def test_what_is_scored_is_what_was_said(model: TextModel) -> None:
    one = model.generate("the cat", tokens=8, seed=11)
    ids = [*model.line_ids(["the cat"])[0].tolist()[:-1], *one.token_ids]
    state = model.model.start(1, 20)
    for token, score, before in zip(one.token_ids, one.token_scores, range(len(ids) - len(one.token_ids), len(ids))):
        state = model.model.read(torch.tensor([[BOS, *ids[:before]]]), torch.tensor([before + 1]), 40)
        del state
        scored = model.model.score(torch.tensor([ids[: before + 1]]), torch.tensor([before + 1]))[0, -1]
        assert score == pytest.approx(float(scored), abs=1e-4)
        assert ids[before] == token


@pytest.mark.parametrize("draft", ["ngram", "prompt", "lstm"])
def test_a_draft_changes_nothing_but_the_speed(model: TextModel, draft: str, folders: dict[str, Path]) -> None:
    guess: Any = "prompt" if draft == "prompt" else loaded(folders[draft])
    prompts = ["the cat sat on the mat and the cat", ""]
    plain = model.generate(prompts, greedy=True, tokens=20)
    found = model.generate(prompts, greedy=True, tokens=20, draft=guess, draft_tokens=3)
    for one, other in zip(plain, found):
        assert other.text == one.text
        assert one.speculation is None
        assert other.speculation is not None
        assert other.speculation.tokens == len(other.token_ids)
    stream = model.stream(prompts[0], greedy=True, tokens=20, draft=guess)
    assert "".join(stream) == plain[0].continuation
    drawn = model.generate(prompts[0], seed=4, tokens=20, draft=guess, samples=2)
    assert "".join(model.stream(prompts[0], seed=4, tokens=20, draft=guess)) == drawn[0].continuation
    stopped = model.generate(prompts, greedy=True, tokens=20, draft=guess, stop=["at"])
    without = model.generate(prompts, greedy=True, tokens=20, stop=["at"])
    assert [one.text for one in stopped] == [one.text for one in without]


@pytest.mark.parametrize("draft", ["ngram", "prompt", "lstm"])
def test_a_drafted_stream_stops_where_the_text_does(draft: str, folders: dict[str, Path]) -> None:
    """Drawn, with a draft: stop strings end both, and nothing of them is shown."""
    model = loaded(folders["transformer-decoder"])
    guess: Any = "prompt" if draft == "prompt" else loaded(folders[draft])
    how: dict[str, Any] = {
        "tokens": 25,
        "draft": guess,
        "stop": ["dog", "at"],
        "min_p": 0.02,
        "repetition_penalty": 1.1,
    }
    stops = []
    for seed in range(8):
        said = model.generate("the cat", seed=seed, **how)
        stream = model.stream("the cat", seed=seed, **how)
        assert "".join(stream) == said.continuation
        assert stream.generation.token_ids == said.token_ids
        assert "dog" not in said.continuation and "at" not in said.continuation
        stops.append(said.stop)
    assert {"dog", "at"} & {*stops}


def test_a_vocabulary_can_be_asked_for_again(folders: dict[str, Path]) -> None:
    """What a draft must be trained with, and what the refusal of another one tells."""
    model = loaded(folders["transformer-decoder"])
    asked = model.vocabulary_settings()
    assert "tokenizer.kind=word" in asked
    assert not [one for one in asked if one.endswith(("=None", "="))]
    with pytest.raises(UserError, match=r"tokenizer\.kind=word"):
        model.generate("the", draft=loaded(folders["bytes ngram"]))


def test_a_draft_of_other_words_is_refused(folders: dict[str, Path]) -> None:
    model = loaded(folders["transformer-decoder"])
    with pytest.raises(UserError, match="another vocabulary"):
        model.generate("the", draft=loaded(folders["bytes ngram"]))
    with pytest.raises(UserError, match=r"draft is 'runs/ngram'; give a language model that .* or 'prompt'"):
        model.generate("the", draft="runs/ngram")
    with pytest.raises(UserError, match="draft_tokens is about a draft"):
        model.generate("the", draft_tokens=3)
    with pytest.raises(UserError, match="draft_tokens is about a draft"):
        model.stream("the", draft_tokens=3)
    with pytest.raises(UserError, match="does not go on with a text"):
        model.generate("the", draft=loaded(folders["transformer-encoder"]))


def test_room_in_a_limited_model(folders: dict[str, Path]) -> None:
    model = loaded(folders["transformer-decoder"])
    prompt = " ".join(["the"] * 20)
    one = model.generate(prompt, tokens=100, seed=1, min_length=99)
    assert one.limit == 11
    assert len(one.token_ids) <= 11
    with pytest.raises(UserError, match="the prompt has 31 tokens; the model can read 30"):
        model.generate(" ".join(["the"] * 31))
    with pytest.raises(UserError, match="the prompt has 31 tokens"):
        model.stream(" ".join(["the"] * 31), draft="prompt")


def test_options_that_mean_nothing_are_refused(folders: dict[str, Path]) -> None:
    model = loaded(folders["lstm"])
    for wrong, said in [
        ({"min_p": 2.0}, "min_p must be"),
        ({"repetition_penalty": 0.0}, "repetition_penalty must be"),
        ({"stop": [""]}, "a stop string is empty"),
        ({"greedy": True, "min_p": 0.1}, "nothing is sampled"),
        ({"coverage_penalty": 0.1}, "has no meaning"),
    ]:
        with pytest.raises(UserError, match=said):
            model.generate("the", **wrong)
        with pytest.raises(UserError, match=said):
            model.stream("the", **wrong)


# Scoring ------------------------------------------------------------------------------------------------------------


def test_every_way_of_scoring_agrees(model: TextModel) -> None:
    lines = VERSE[:4]
    scored = list(model.score(lines))
    assert model.log_probabilities(lines) == pytest.approx([line.log_probability for line in scored], abs=1e-4)
    found = model.evaluate(lines)
    assert found.log_probability == pytest.approx(math.fsum(line.log_probability for line in scored), abs=1e-3)
    assert found.stride is None


def test_a_stream_is_read_through_the_window_it_was_learned_with(folders: dict[str, Path]) -> None:
    model = loaded(folders["stream"])
    found = model.evaluate(VERSE)
    assert (found.context, found.stride, found.cut_rows) == (8, 3, 1)
    other = model.evaluate(VERSE, stride=8)
    assert (other.context, other.stride) == (8, 8)
    assert other.log_probability != found.log_probability
    ids = model.line_ids(VERSE)[0].astype(np.int64)
    by_hand = []
    for begin in range(0, len(ids), 8):
        row = torch.from_numpy(ids[begin : begin + 8])[None]
        if begin + 8 > len(ids):  # the last window is full too
            row = torch.from_numpy(ids[-8:])[None]
        scores = model.model.score(row, torch.tensor([row.shape[1]]))[0]
        by_hand += scores[len(scores) - min(8, len(ids) - begin) :].tolist()
    assert other.log_probability == pytest.approx(sum(by_hand), abs=1e-3)
    assert model.log_probabilities(VERSE).sum() == pytest.approx(found.log_probability, abs=1e-3)


def test_packed_text_is_lines_when_it_is_used(folders: dict[str, Path]) -> None:
    packed, plain = loaded(folders["packed"]), loaded(folders["transformer-decoder"])
    assert packed.boundaries == "lines"
    assert packed.log_probabilities(VERSE) == pytest.approx(plain.log_probabilities(VERSE))


def test_a_masked_model_says_what_its_numbers_are(folders: dict[str, Path]) -> None:
    found = loaded(folders["transformer-encoder"]).evaluate(VERSE)
    assert "pseudo-likelihood" in str(found.note)
    long = loaded(folders["transformer-encoder"]).evaluate(["the cat " * 40])
    assert (long.context, long.stride, long.cut_rows) == (31, 15, 1)


# Filling in ---------------------------------------------------------------------------------------------------------


def test_blanks_are_filled_with_the_models_probabilities(folders: dict[str, Path]) -> None:
    model = loaded(folders["transformer-encoder"])
    found = model.fill("the ___ sat on ____", top=3)
    the, sat, on = (model.tokenizer.encode(word)[0] for word in ("the", "sat", "on"))
    mask = model.model.mask_id
    ids = torch.tensor([[BOS, the, mask, sat, on, mask, EOS]])
    p = model.model(ids, torch.tensor([7]))[0].softmax(-1)  # (T, V)
    for place, candidates in zip((2, 5), found.blanks):
        allowed = p[place].clone()
        allowed[: UNK + 1] = 0
        assert [one.token_id for one in candidates] == allowed.topk(3).indices.tolist()
        assert [one.probability for one in candidates] == pytest.approx(allowed.topk(3).values.tolist(), abs=1e-5)
        assert all(one.text == model.tokenizer.decode([one.token_id]) for one in candidates)
    assert found.best == f"the {found.blanks[0][0].text} sat on {found.blanks[1][0].text}"


def test_the_words_beside_a_blank_are_cut_as_ever(folders: dict[str, Path]) -> None:
    from anaphora.decoding.hidden_words import hide

    for name in ("bpe masked", "punctuation masked", "transformer-encoder", "bytes masked"):
        tokenizer = loaded(folders[name]).tokenizer
        for text in ("the ___ sat", "___ and dog", "a dog, ___!", "the cat ___", "___", "the ___ ___ sat"):
            if "!" in text and tokenizer.split == "blanks":  # to which "x!" is one word
                continue
            hidden = hide(tokenizer, text, 9999)
            assert hidden.count(9999) == text.count("___"), (name, text, hidden)
            pieces = text.split("___")
            spoken = [tokenizer.decode(part) for part in _between(hidden, 9999)]
            assert [one.split() for one in spoken] == [piece.split() for piece in pieces], (name, text)
    tokenizer = loaded(folders["punctuation masked"]).tokenizer
    whole = tokenizer.encode("the cat sat.")
    assert hide(tokenizer, "the ___ sat.", 9999) == [whole[0], 9999, *whole[2:]]
    bpe = loaded(folders["bpe masked"]).tokenizer
    assert hide(bpe, "the ___ sat", 9999)[0] == bpe.encode("the")[0]
    assert hide(bpe, "the ___ sat", 9999)[2:] == bpe.encode(" sat")


def _between(ids: list[int], mask: int) -> list[list[int]]:
    parts: list[list[int]] = [[]]
    for id in ids:
        if id == mask:
            parts.append([])
        else:
            parts[-1].append(id)
    return parts


def test_a_word_and_the_end_of_one_are_told_apart(folders: dict[str, Path]) -> None:
    model = loaded(folders["bpe masked"])
    found = model.fill("the ___ sat", top=50)
    (candidates,) = found.blanks
    shown = {repr(one).split(",")[0] for one in candidates}
    assert len(shown) == 50, "no two look alike"
    assert {one.token for one in candidates if one.token.startswith("␣")}
    assert all(repr(one).startswith(f"Candidate({one.token!r},") for one in candidates)
    assert found._repr_html_().count(">␣") == sum(one.token.startswith("␣") for one in candidates)
    spaced = [one for one in candidates if len(one.token) > 1 and one.token.startswith("␣")]
    assert [one.text for one in spaced] == [one.token.removeprefix("␣") for one in spaced]


def test_filling_in_many_lines_is_filling_in_each(folders: dict[str, Path]) -> None:
    model = loaded(folders["bpe masked"])
    lines = ["the ___ sat", "no blank here", "___", "a ___ and ___ dog saw the mat"]
    together = model.fill(lines, top=4)
    assert [len(line.blanks) for line in together] == [1, 0, 1, 2]
    for line, found in zip(lines, together):
        alone = model.fill(line, top=4)
        for one, other in zip(alone.blanks, found.blanks):
            assert [c.token for c in one] == [c.token for c in other]
            assert [c.probability for c in one] == pytest.approx([c.probability for c in other], abs=1e-5)
    with pytest.raises(UserError, match="candidates are asked for"):
        model.fill("___", top=0)
    with pytest.raises(UserError, match=r"tokens with its marks.*can read 32"):
        model.fill(["the ___", "the cat sat on the mat " * 20 + "___"])


# Vectors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SHAPES, "bpe", "lstm classifier", "transformer-encoder classifier"])
def test_vectors_do_not_depend_on_the_lines_beside_them(name: str, folders: dict[str, Path]) -> None:
    model = loaded(folders[name])
    lines = [*VERSE, "a"]
    pools = ["mean", "max", "last"] + (["first"] if "causal" not in model.model.capabilities else [])
    for pool in pools:
        together = model.encode(lines, pool=pool)
        assert together.shape == (len(lines), 8)
        alone = np.stack([model.encode(line, pool=pool) for line in lines])
        assert together == pytest.approx(alone, abs=1e-5)
    words = list(model.word_vectors(lines))
    assert [[word.text for word in line.words] for line in words] == [line.split() for line in lines]
    means = model.encode(lines)
    for line, mean in zip(words, means):
        if line.words and name != "bpe":  # one token a word: the words' mean is the sentence's
            assert line.vectors.mean(axis=0) == pytest.approx(mean, abs=1e-5)


def test_vectors_are_the_models(folders: dict[str, Path]) -> None:
    model = loaded(folders["transformer-decoder"])
    ids = model.line_ids(["the cat sat"])[0].astype(np.int64)[:-1]
    hidden = model.model.hidden(torch.tensor([[BOS, *ids]]), torch.tensor([4]))
    for layer, expected in enumerate(hidden):
        line = model.word_vectors("the cat sat", layer=layer)
        assert line.vectors == pytest.approx(expected[0, 1:].numpy(), abs=1e-5)
    assert model.encode("the cat sat", pool="last") == pytest.approx(hidden[-1][0, 3].numpy(), abs=1e-5)
    first = model.word_vectors("the cat sat", layer=0)
    other = model.word_vectors("a cat sat", layer=0)
    assert first.vectors[2] == pytest.approx(other.vectors[2])  # the embedding knows no context
    deep = model.word_vectors("the cat sat")
    deep_other = model.word_vectors("a cat sat")
    assert deep.vectors[2] != pytest.approx(deep_other.vectors[2])


def test_vectors_that_cannot_be_had(folders: dict[str, Path]) -> None:
    model = loaded(folders["transformer-decoder"])
    with pytest.raises(UserError, match="its first vector knows nothing"):
        model.encode("the", pool="first")
    with pytest.raises(UserError, match=r"pool cannot be .*known: first, last, max, mean"):
        model.encode("the", pool="sum")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="there is no layer 7"):
        model.encode("the", layer=7)
    with pytest.raises(UserError, match="can read 32") as error:
        model.encode(["the", "the " * 40])
    assert error.value.line == 2
    with pytest.raises(UserError, match="have vectors of text"):
        loaded(folders["ngram"]).encode("the")
    assert model.encode([]).shape[0] == 0


# Classes ------------------------------------------------------------------------------------------------------------


def test_labels_are_lines_and_never_the_name_of_a_file(folders: dict[str, Path]) -> None:
    model = loaded(folders["lstm classifier"])
    with pytest.raises(UserError, match="labels is one str, not lines of text"):
        model.evaluate_labels(VERSE, "test.labels")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="text is one str, not lines of text"):
        model.evaluate_labels("test.txt", ["a"])  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["dan", "lstm", "transformer-encoder"])
def test_classes_have_the_models_probabilities(kind: str, folders: dict[str, Path]) -> None:
    model = loaded(folders[f"{kind} classifier"])
    found = list(model.classify(VERSE))
    for line, one in zip(VERSE, found):
        ids = [BOS, *model.line_ids([line])[0].tolist()]
        p = model.model(torch.tensor([ids]), torch.tensor([len(ids)])).softmax(-1)[0]
        assert one.text == line
        assert one.label == ["sad", "glad", "mad"][int(p.argmax())]
        assert one.probabilities == pytest.approx(dict(zip(["sad", "glad", "mad"], p.tolist())), abs=1e-5)
        assert list(one.probabilities.values()) == sorted(one.probabilities.values(), reverse=True)
        assert one.probability == max(one.probabilities.values())
    assert not any(one.cut for one in found)


def test_a_line_is_classified_before_the_next_is_typed(folders: dict[str, Path]) -> None:
    typed: list[str] = []

    def keyboard() -> Iterator[str]:
        for line in VERSE[:3]:
            typed.append(line)
            yield line

    answers = loaded(folders["lstm classifier"]).stream_classify(keyboard(), window=1)
    assert [(next(answers).text, len(typed)) for _ in range(3)] == [(line, n) for n, line in enumerate(VERSE[:3], 1)]


def test_of_a_line_too_long_for_a_classifier_the_beginning_is_read(folders: dict[str, Path]) -> None:
    """As when it learned: ⟨s⟩ and as many words as fit."""
    model = loaded(folders["transformer-encoder classifier"])
    assert model.model.max_length == 32
    short, long = model.classify(["the cat sat " * 10 + "the", "the cat sat " * 20])
    assert (short.cut, long.cut) == (True, True)  # 31 words, ⟨s⟩ and ⟨/s⟩ are 33
    assert long.probabilities == pytest.approx(short.probabilities)
    assert not model.classify("the cat sat " * 10).cut


# Who can do what ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "ask", "said"),
    [
        ("transformer-decoder", lambda m: m.fill("the ___"), "reads from left to right.*does not fill in blanks"),
        ("ngram", lambda m: m.fill("the ___"), "a counting model.*does not fill in blanks"),
        ("lstm", lambda m: m.classify(["the"]), "does not put texts into classes.*labels"),
        ("transformer-encoder", lambda m: m.generate("the"), "masked.*does not go on with a text.*anaphora fill"),
        ("transformer-encoder", lambda m: m.stream("the"), "masked.*does not go on with a text"),
        ("lstm classifier", lambda m: m.generate("the"), "a classifier.*does not go on with a text"),
        ("lstm classifier", lambda m: m.evaluate(["the"]), "a classifier.*does not give a text a probability"),
        ("lstm classifier", lambda m: m.fill("the ___"), "a classifier.*does not fill in blanks"),
    ],
)
def test_what_a_model_cannot_do_it_says(name: str, ask: Any, said: str, folders: dict[str, Path]) -> None:
    with pytest.raises(UserError, match=said):
        ask(loaded(folders[name]))


def test_devices(folders: dict[str, Path]) -> None:
    assert loaded(folders["lstm"]).model.device == torch.device("cpu")
    with pytest.raises(UserError, match="does not compute on cuda"):
        anaphora.load(folders["ngram"], "cuda")
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="there is no cuda device"):
            anaphora.load(folders["lstm"], "cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("kind", SHAPES)
def test_a_gpu_answers_as_the_cpu(kind: str, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = loaded(folders[kind]), anaphora.load(folders[kind], "cuda")
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)  # whose rounding is not what is asked here
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    assert isinstance(there, TextModel)
    assert there.log_probabilities(VERSE) == pytest.approx(here.log_probabilities(VERSE), abs=1e-3)
    assert there.encode(VERSE) == pytest.approx(here.encode(VERSE), abs=1e-3)
    if kind in CAUSAL:
        draft = loaded(folders["ngram"])
        text = here.generate("the cat", greedy=True).text
        assert there.generate("the cat", greedy=True).text == text
        assert there.generate("the cat", greedy=True, draft=draft).text == text
        assert (
            "".join(there.stream("the cat", seed=2, draft=draft))
            == there.generate("the cat", seed=2, draft=draft).continuation
        )
