"""`anaphora convert` of published Backpacks: there and back number by number, and with every verb in between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from anaphora.pipelines.text_model import TextModel
from anaphora.tokenizers.tokenizer import BOS, EOS, SPECIALS, Tokenizer, TokenizerConfig
from neural_folders import neural_folder
from ngram_folders import VERSE
from published_backpacks import FOLDER_ROWS as ROWS
from published_backpacks import FOLDER_WORDS as WORDS
from published_backpacks import as_safetensors, folder, plainly, published

TOKENS: dict[str, Any] = {"tokenizer": {"kind": "bpe", "vocabulary": 270}}


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    return Tokenizer.train(TokenizerConfig(kind="bpe", vocabulary=WORDS - 1 + len(SPECIALS)), VERSE * 3)


@pytest.mark.parametrize("layout", ["safetensors", "bin", "ckpt"])
def test_there_and_back(layout: str, say: Any, bpe: Tokenizer, tmp_path: Path) -> None:
    theirs = folder(tmp_path / "theirs", bpe, layout)
    answer = say("convert", theirs, tmp_path / "ours")
    assert (answer.code, "holds a Backpack of" in answer.out) == (0, True), answer.err
    assert "<|endoftext|>" in answer.err
    model, weights, end = TextModel(tmp_path / "ours"), published(ROWS), WORDS - 1
    line = "the cat sat"
    ids = [number - len(SPECIALS) for number in bpe.encode(line)]
    assert len(ids) < 12 and model.tokenizer.pieces(line) == bpe.pieces(line)
    logits, alpha = plainly(weights, torch.tensor([end, *ids]))
    said = torch.log_softmax(logits, dim=-1)
    wanted = sum(said[place, word] for place, word in enumerate([*ids, end]))
    assert model.log_probabilities([line])[0] == pytest.approx(float(wanted), abs=1e-4)
    inside: Any = model.model
    own = torch.tensor([[BOS, *model.tokenizer.encode(line)]])
    torch.testing.assert_close(inside.sense_weights(own)[0], alpha, atol=1e-5, rtol=1e-5)
    after = inside.step(torch.tensor([BOS]), inside.start(1, 4))[0][0]
    torch.testing.assert_close(after[EOS], said[0, end], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(after[len(SPECIALS) :].exp().sum() + after[EOS].exp(), torch.tensor(1.0))
    assert say("convert", tmp_path / "ours", tmp_path / "back", "--json").code == 0
    back, kept = (
        load_file(tmp_path / "back" / "model.safetensors"),
        as_safetensors(weights, "backpack.gpt2_model.wte.weight"),
    )
    kept = {name: tensor for name, tensor in kept.items() if not name.endswith("masked_bias")}
    assert back.keys() == kept.keys() and all(torch.equal(back[name], tensor) for name, tensor in kept.items())
    document = json.loads((tmp_path / "back" / "config.json").read_text())
    assert document | json.loads((theirs / "config.json").read_text()) == document
    if layout == "safetensors":
        for name in ("vocab.json", "merges.txt"):
            read = [json.loads(text) if name.endswith("json") else text for text in _both(tmp_path, name)]
            assert read[0] == read[1]


def _both(tmp_path: Path, name: str) -> list[str]:
    return [(tmp_path / side / name).read_text() for side in ("theirs", "back")]


def test_a_published_model_that_has_learned_on_keeps_its_numbers(say: Any, bpe: Tokenizer, tmp_path: Path) -> None:
    """What a run says of itself no longer says which number <|endoftext|> had."""
    assert say("convert", folder(tmp_path / "theirs", bpe), tmp_path / "ours").code == 0
    metrics = json.loads((tmp_path / "ours" / "metrics.json").read_text())
    del metrics["published"]
    (tmp_path / "ours" / "metrics.json").write_text(json.dumps(metrics))
    answer = say("convert", tmp_path / "ours", tmp_path / "back")
    assert (answer.code, f"<|endoftext|> is number {WORDS - 1}" in answer.err) == (0, True), answer.err
    read = [json.loads(text) for text in _both(tmp_path, "vocab.json")]
    assert read[0] == read[1]
    assert json.loads((tmp_path / "back" / "config.json").read_text())["eos_token_id"] == WORDS - 1


def test_a_converted_folder_works_with_every_verb(say: Any, bpe: Tokenizer, tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    assert say("convert", folder(tmp_path / "theirs", bpe), ours).code == 0
    (tmp_path / "text.txt").write_text("the cat\nsat\n")
    for verb, *words in (
        ["score", "--text", tmp_path / "text.txt"],
        ["evaluate", "--text", tmp_path / "text.txt"],
        ["generate", "the", "--tokens", "4"],
        ["info"],
    ):
        answer = say(verb, ours, *words, "--json")
        assert answer.code == 0, answer.err
        json.loads(answer.last)


def test_a_backpack_that_learned_here_in_the_published_layout(say: Any, bpe: Tokenizer, tmp_path: Path) -> None:
    shape = {"positions": "learned", "activation": "gelu-tanh", "scale_embedding": False}
    ours = neural_folder(tmp_path / "ours", "backpack", **TOKENS, **shape)
    answer = say("convert", ours, tmp_path / "theirs")
    assert answer.code == 0 and "tokens keep our numbers" in answer.err
    document = json.loads((tmp_path / "theirs" / "config.json").read_text())
    assert (document["num_senses"], document["bos_token_id"], document["eos_token_id"]) == (2, BOS, EOS)
    assert document["vocab_size"] == TextModel(ours).model.vocabulary
    assert json.loads((tmp_path / "theirs" / "vocab.json").read_text())["⟨s⟩"] == BOS
    answer = say("convert", tmp_path / "theirs", tmp_path / "back")
    assert (answer.code, "<|endoftext|>" in answer.err) == (0, False), answer.err
    first, again = TextModel(ours), TextModel(tmp_path / "back")
    assert list(again.log_probabilities(VERSE[:2])) == list(first.log_probabilities(VERSE[:2]))
    assert first.tokenizer.encode(VERSE[0]) == again.tokenizer.encode(VERSE[0])
    silent = neural_folder(tmp_path / "silent", "backpack", **TOKENS, **shape, silent=[7])
    assert "model.silent=[7] has no published form" in say("convert", silent, tmp_path / "no").err
    other = neural_folder(tmp_path / "rotary", "backpack", **TOKENS)
    answer = say("convert", other, tmp_path / "no")
    assert (answer.code, (tmp_path / "no").exists()) == (2, False)
    assert "model.activation=gelu, model.positions=rotary, model.scale_embedding=True has no" in answer.err
    assert "published ones have activation=gelu-tanh, positions=learned, scale_embedding=False" in answer.err


def breaking(path: Path, how: str) -> None:
    if how == "weights":
        (path / "model.safetensors").unlink()
    elif how == "pickle":
        (path / "model.safetensors").unlink()
        torch.save({"model": object}, path / "pytorch_model.bin")
    elif how == "tokeniser":
        (path / "vocab.json").unlink()
    elif how == "merges":
        (path / "merges.txt").write_text("a b c d\n")
    elif how == "settings":
        (path / "config.json").write_text('{"num_senses": ')


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("weights", "holds no weights"),
        ("pickle", "cannot be read as weights alone"),
        ("tokeniser", "holds no tokenizer"),
        ("merges", "is not of a byte-level BPE"),
        ("settings", "cannot be read"),
        ("levanter", "levanter's Backpack, which divides"),
        ("rows", "other numbers than the model's 200"),
        ("there", "already exists"),
    ],
)
def test_what_cannot_be_read_is_told(how: str, said: str, say: Any, bpe: Tokenizer, tmp_path: Path) -> None:
    changes = {"levanter": {"model_type": "backpack-gpt2"}, "rows": {"vocab_size": 200}}.get(how, {})
    theirs = folder(tmp_path / "theirs", bpe, **changes)
    breaking(theirs, how)
    if how == "there":
        (tmp_path / "ours").mkdir()
        (tmp_path / "ours" / "mine.txt").write_text("mine")
    answer = say("convert", theirs, tmp_path / "ours")
    assert (answer.code, said in answer.err) == (2, True), answer.err
    assert (tmp_path / "ours").exists() == (how == "there")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ("[" * 100_000, "it is nested too deeply"),
        ({"vocab_size": 10**12}, "vocab_size is 1000000000000, not a whole number"),
        ({"vocab_size": 10**9}, "and no table of the weights has as many rows"),
        ({"n_layer": 10**9}, "more than 10,000 layers are not built"),
        ({"n_embd": "many"}, "a setting of the wrong kind"),
        ({"n_positions": 1e400}, "a setting of the wrong kind"),
    ],
)
def test_a_published_config_is_not_believed(
    changes: str | dict[str, Any], said: str, say: Any, bpe: Tokenizer, tmp_path: Path
) -> None:
    theirs = folder(tmp_path / "theirs", bpe, **(changes if isinstance(changes, dict) else {}))
    if isinstance(changes, str):
        (theirs / "config.json").write_text(changes)
    answer = say("convert", theirs, tmp_path / "ours")
    assert (answer.code, said in answer.err) == (2, True), answer.err
    assert not (tmp_path / "ours").exists()
