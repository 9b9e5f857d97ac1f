"""Our weights in Marian's layout are the same translator: equal logits, equal hypotheses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from anaphora.decoding.beam_search import DecodingConfig, search
from anaphora.decoding.translate import pad
from anaphora.models.translation.transformer_translator import Transformer, TransformerConfig
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD

pytest.importorskip("transformers", reason="the comparison needs transformers: pip install 'anaphora[interop]'")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from marian_layout import marian_twin

VOCABULARY = 30


def translator(std: float = 0.3, **changes: Any) -> Transformer:
    torch.manual_seed(3)
    shape = {"dim": 32, "layers": 2, "heads": 4, "feed_forward": 40, "norm": "post", "max_length": 64, "dropout": 0.1}
    config = TransformerConfig(**{**shape, **changes})
    model = Transformer(config, VOCABULARY if config.tie == "all" else VOCABULARY + 7, VOCABULARY)
    for parameter in model.parameters():  # gains and biases too: each must find its place
        torch.nn.init.normal_(parameter, std=std)
    return model.eval().requires_grad_(False)


def sources(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    lengths = torch.randint(1, 12, (count,), generator=generator).tolist()
    return pad([[*torch.randint(4, VOCABULARY, (n,), generator=generator).tolist(), EOS] for n in lengths], "cpu")


def mask(source: Tensor, lengths: Tensor) -> Tensor:
    return (torch.arange(source.shape[1]) < lengths[:, None]).long()


@pytest.mark.parametrize(
    "changes",
    [{}, {"tie": "target"}, {"tie": "none"}, {"decoder_layers": 3}, {"activation": "gelu"}, {"dim": 24, "heads": 1}],
    ids=str,
)
def test_the_twin_gives_the_same_logits(changes: dict[str, Any]) -> None:
    model = translator(**changes)
    twin = marian_twin(model)
    source, lengths = sources(6)
    target = torch.randint(4, VOCABULARY, (6, 9), generator=torch.Generator().manual_seed(1))
    target[:, 0] = BOS
    theirs = twin(input_ids=source, attention_mask=mask(source, lengths), decoder_input_ids=target).logits
    ours = model(source, target, lengths)
    assert ours.std() > 0.1
    torch.testing.assert_close(theirs, ours, atol=1e-4, rtol=0)


def test_the_twin_counts_the_same_parameters() -> None:
    for tie in ("all", "target", "none"):
        model = translator(tie=tie)
        positions = 2 * model.config.max_length * model.config.dim  # Marian's tables are frozen parameters
        theirs = sum(p.numel() for p in marian_twin(model).parameters())
        assert theirs - model.parameter_count() in (0, positions)


def test_both_searches_find_the_same_hypotheses() -> None:
    """log P without length penalty, Marian's search going on until nothing better can come: one and the same problem.

    A model that half knows how to copy: sure enough to end, unsure enough for the beam to matter."""
    torch.manual_seed(1)
    model = Transformer(TransformerConfig(dim=32, layers=1, heads=2, feed_forward=64, norm="post"), 30, 30)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(120):
        source, lengths = pad([[*torch.randint(4, 30, (n,)).tolist(), EOS] for n in (2, 3, 4, 5) * 16], "cpu")
        target = torch.cat([torch.full_like(source[:, :1], BOS), source[:, :-1]], dim=1)
        logits = model(source, target, lengths)
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), source.flatten(), ignore_index=PAD).backward()
        optimizer.step()
        optimizer.zero_grad()
    model = model.double().eval().requires_grad_(False)
    twin = marian_twin(model).double()
    source, lengths = sources(40)
    longest = 30
    found = search(model, source, lengths, DecodingConfig(beam=4, length_penalty=0.0, max_length=longest, unknown=True))
    said = twin.generate(
        input_ids=source,
        attention_mask=mask(source, lengths),
        num_beams=4,
        do_sample=False,
        length_penalty=0.0,
        early_stopping="never",
        max_new_tokens=longest,
    ).tolist()
    ended = [row for row in range(40) if found[row][0].finished]
    assert len(ended) >= 30  # at the limit Marian hands out what did not end as if it had
    assert len({tuple(found[row][0].tokens) for row in ended}) >= 10
    for row in ended:
        assert [token for token in said[row] if token not in (PAD, BOS, EOS)] == found[row][0].tokens


def test_a_pre_norm_model_has_no_twin() -> None:
    with pytest.raises(SystemExit, match=r"model\.norm=post"):
        marian_twin(translator(norm="pre"))
