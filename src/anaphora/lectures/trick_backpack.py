"""Lecture 5 once more: "That trick was sick" as a Backpack, the class that learns from text, with the senses given.

A Backpack has no mask that keeps a sense to its own word: for each sense, α is a softmax over the *places* of the
sentence. It need not have one. A sense that is to say nothing looks at words whose sense of that number says nothing.

    x = E[word]                      the sum of the word's two senses, as the table of words
    h = (verdict, speaks)            of a window of four words: are those before of skateboards (+1) or of health (-1),
                                     and does the word here say anything, positive or negative
    sense 0: q = verdict, k = speaks        looks at the word that speaks where the verdict is skateboards
    sense 1: q = -verdict, k = speaks       looks at it where the verdict is health
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from anaphora.explain.trace_parts import Check, Step, Walk
from anaphora.models.backpack.backpack import Backpack
from anaphora.models.backpack.sense_table import SenseTable
from anaphora.nn.convolution import WindowEncoder

WORDS = ["that", "trick", "was", "sick", "fever"]
FEVER = torch.tensor([[0, 0, 0, 0], [0, 0, 0, 1]], dtype=torch.float64)
"""A word of our own: of health, in its second sense; it says as little as a trick."""
SURE = 40.0
"""How strongly evidence counts: tanh of it is 1, and e to minus it a rounding error."""


def as_backpack(given: Tensor) -> Backpack:
    """The sentence's words, their senses `given` (8, 4) as the table, and weights by hand."""
    with torch.random.fork_rng(devices=[]):  # whatever it begins with is written over
        model = Backpack(vocabulary=len(WORDS), dim=4, senses=2, encoder="window", window=4, layers=1, dropout=0.0)
    model = model.double().eval().requires_grad_(False)
    senses = torch.cat([given.view(4, 2, 4), FEVER[None]])  # (5, 2, 4)
    model.vocabulary_matrix.copy_(senses.sum(dim=1))
    says = senses.clone()
    says[..., 2:] = 0  # what a sense is of chooses; what it says is summed: the lecture's V
    model.attach(SenseTable(says, "given"))
    encoder = cast(WindowEncoder, model.encoder)
    for parameter in (encoder.linear.weight, encoder.linear.bias, model.query_key.weight, model.query_key.bias):
        parameter.zero_()
    window = encoder.linear.weight.view(4, 4, 4)  # (of h, place in the window, dimension of the word there)
    window[0, :3, 2], window[0, :3, 3] = SURE, -SURE  # verdict: skateboards less health, of the three words before
    window[1, 3, :2] = SURE  # speaks: the word here
    query, key = model.query_key.weight.view(2, 2, 2, 4)  # each (sense, its two numbers, of h)
    query[0, 0, 0], query[1, 0, 0] = 2 * SURE, -2 * SURE
    key[:, 0, 1] = 1.0
    return model


def sentence(text: str) -> Tensor:
    return torch.tensor([[WORDS.index(word) for word in text.split()]])


def backpack(given: Tensor, names: list[str]) -> Walk:
    """α of the last word and the sum, of the lecture's sentence, and of one that is about health."""
    model, said = as_backpack(given), ["that trick was sick", "that fever was sick"]
    weights = [model.sense_weights(sentence(text))[0, :, -1] for text in said]  # (2, 4) each
    sums = torch.stack([model.mixed(sentence(text))[0, -1] for text in said])  # (2, 4)
    senses = ["sense 0", "sense 1"]
    steps = [
        Step(
            "α", "α_ℓ = softmax_j(q_ℓ · k_ℓ)", "what each sense of “sick” looks at", senses, said[0].split(), weights[0]
        ),
        Step("α, fever", "", "the same where the other words are of health", senses, said[1].split(), weights[1]),
        Step("o", "o = Σ_j Σ_ℓ α_ℓj C(x_j)_ℓ", "at “sick”: what is said", said, names, sums, dimensions=True),
    ]
    wanted = torch.tensor([[1, 0, 0, 0], [0, 1, 0, 0]], dtype=torch.float64)
    return Walk(
        "backpack",
        "As a Backpack",
        "For each sense a softmax over places: one that is to say nothing looks at words that say nothing.",
        steps,
        [Check("a trick is sick: 1 0 0 0; a fever: 0 1 0 0", float((sums - wanted).abs().max()), 1e-12)],
    )
