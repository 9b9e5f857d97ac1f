"""Do a Backpack's sense weights know a word's meaning? CoarseWSD-20: *bank*, *bass*, *crane*.

    python benchmarks/sense_weights.py MODEL --data shared/data/wsd [--words bank bass crane] [--device cuda] [--seed 1]

Each use of a word is described by weights α alone, of the places from the word to the end of its sentence:

    own        how the word's own senses are weighted: α on it at the word itself, in the mean and at the end, (3 k,)
    context    how the senses of all words of the sentence are weighted, by word and sense, in the mean, (V k,)

A logistic regression learns the meaning from the training part, each meaning counting alike, and is asked for the test
part. The figure is balanced accuracy, the mean over meanings of the share of each that is found: who looks at nothing
gets 1 / meanings. `words`, the same classifier on which words the sentence holds and no weights at all, stands beside
them. MODEL is the folder of a Backpack; files of --data are WORD.train.tsv.gz and WORD.test.tsv.gz: sense, place of the
word, sentence. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import anaphora
from anaphora.evaluation.sense_scores import sense_accuracy
from anaphora.tokenizers.tokenizer import BOS
from anaphora.tokenizers.words import TokenWords, split_words

CELLS = 1 << 24
"""Weights that are formed at once."""
EPOCHS, BATCH, RATE, DECAY = 40, 64, 0.03, 0.02
ABOVE = 0.10
"""What is asked for: this much more than 1 / meanings."""


@dataclass(frozen=True)
class Use:
    """A word in a sentence, its meaning there, and what the model weighs."""

    meaning: str
    own: np.ndarray
    """(3 k,)"""
    pairs: np.ndarray
    """word · k + sense of each weight: (n,)"""
    weights: np.ndarray
    """(n,)"""
    words: np.ndarray
    """The words of the sentence: (m,)"""


def read(model: Any, file: Path, device: str) -> list[Use]:
    """Every use of a file; the end of a sentence that is too long is not read."""
    tokenizer, cut = model.tokenizer, TokenWords(model.tokenizer)
    longest = model.model.max_length or 1 << 30
    rows = []
    for line in gzip.decompress(file.read_bytes()).decode("utf-8").splitlines():
        meaning, place, text = line.split("\t")
        ids = tokenizer.encode(text)
        covered = cut(ids, split_words(text, "whitespace"), text)
        tokens = [at + 1 for at, (first, stop) in enumerate(covered.tolist()) if first <= int(place) < stop]
        if tokens and max(tokens) < longest:  # ⟨s⟩ stands at 0
            rows.append((meaning, [BOS, *ids][:longest], tokens))
    rows.sort(key=lambda row: len(row[1]))
    uses, begin = [], 0
    while begin < len(rows):
        several = max(1, CELLS // (model.model.senses_count * len(rows[min(begin + 64, len(rows) - 1)][1]) ** 2))
        batch = rows[begin : begin + min(several, 64)]
        uses += weighed(model.model, batch, device)
        begin += len(batch)
    return uses


@torch.no_grad()
def weighed(model: Any, rows: Sequence[tuple[str, list[int], list[int]]], device: str) -> list[Use]:
    longest = max(len(ids) for _, ids, _ in rows)
    ids = torch.tensor([own + [0] * (longest - len(own)) for _, own, _ in rows], device=model.device)
    lengths = torch.tensor([len(own) for _, own, _ in rows], device=model.device)
    alpha = model.sense_weights(ids, lengths).float()  # (B, k, T, T)
    found = []
    for row, (meaning, own, tokens) in enumerate(rows):
        first, stop = tokens[-1], len(own)
        after = alpha[row, :, first:stop, :stop]  # (k, places from the word on, T)
        on_word = after[..., tokens].sum(dim=-1)  # (k, places)
        described = torch.cat([on_word[:, 0], on_word.mean(dim=1), on_word[:, -1]])
        mean = after.mean(dim=1).T  # (T, k)
        pairs = torch.tensor(own)[:, None] * model.senses_count + torch.arange(model.senses_count)
        found.append(
            Use(
                meaning,
                described.cpu().numpy(),
                pairs.flatten().numpy(),
                mean.flatten().cpu().numpy(),
                np.unique(np.array(own[1:], np.int64)),
            )
        )
    return found


class Regression(nn.Module):
    """Logistic regression over few numbers, or over a sparse bag of many."""

    def __init__(self, size: int, meanings: int, sparse: bool) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(size, meanings, mode="sum") if sparse else None
        self.linear = None if sparse else nn.Linear(size, meanings)
        self.bias = nn.Parameter(torch.zeros(meanings))
        for weight in (module.weight for module in (self.table, self.linear) if module is not None):
            nn.init.zeros_(weight)

    def forward(self, rows: Sequence[tuple[np.ndarray, np.ndarray]] | Tensor) -> Tensor:
        if isinstance(rows, Tensor):
            assert self.linear is not None
            return self.linear(rows) + self.bias
        assert self.table is not None
        index = torch.from_numpy(np.concatenate([index for index, _ in rows]))
        values = torch.from_numpy(np.concatenate([values for _, values in rows]).astype(np.float32))
        offsets = torch.tensor([0, *(len(index) for index, _ in rows[:-1])]).cumsum(0)
        return self.table(index, offsets, per_sample_weights=values) + self.bias


def classified(train: Any, meanings: Sequence[str], test: Any, size: int, *, seed: int) -> list[str]:
    """Learn meanings from train, each counting alike, and say those of test: arrays (n, size), or bags."""
    torch.manual_seed(seed)
    names = sorted(set(meanings))
    gold = torch.tensor([names.index(one) for one in meanings])
    share = torch.bincount(gold, minlength=len(names)).float()
    dense = isinstance(train, np.ndarray)
    if dense:
        mean, spread = train.mean(axis=0), train.std(axis=0) + 1e-8
        train, test = (torch.from_numpy(((part - mean) / spread).astype(np.float32)) for part in (train, test))
    model = Regression(size, len(names), not dense)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    for _ in range(EPOCHS):
        for some in torch.randperm(len(gold)).split(BATCH):
            rows = train[some] if dense else [train[place] for place in some.tolist()]
            loss = nn.functional.cross_entropy(model(rows), gold[some], weight=len(gold) / share / len(names))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        said = model(test).argmax(dim=1)
    return [names[place] for place in said.tolist()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder of a Backpack")
    parser.add_argument("--data", type=Path, required=True, help="folder of WORD.train.tsv.gz and WORD.test.tsv.gz")
    parser.add_argument("--words", nargs="+", default=["bank", "bass", "crane"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    model = anaphora.load(given.model, given.device)
    k, vocabulary = model.model.senses_count, model.model.vocabulary
    print(f"{given.model}: {k} senses a word, {vocabulary:,} tokens; balanced accuracy, percent")
    print(f"{'word':8}{'meanings':>10}{'by chance':>11}{'own':>8}{'context':>9}{'words':>8}{'uses':>15}{'seconds':>9}")
    rows = {}
    for word in given.words:
        begun = time.perf_counter()
        train, test = (read(model, given.data / f"{word}.{part}.tsv.gz", given.device) for part in ("train", "test"))
        meanings, gold = [use.meaning for use in train], [use.meaning for use in test]
        bags = {
            "own": ([use.own for use in train], [use.own for use in test], 3 * k),
            "context": (*([(use.pairs, use.weights) for use in part] for part in (train, test)), vocabulary * k),
            "words": (*([(use.words, np.ones(len(use.words))) for use in part] for part in (train, test)), vocabulary),
        }
        found = {}
        for name, (learned, asked, size) in bags.items():
            if name == "own":
                learned, asked = np.stack(learned), np.stack(asked)
            found[name] = sense_accuracy(classified(learned, meanings, asked, size, seed=given.seed), gold).macro
        number = len(set(meanings))
        rows[word] = {"meanings": number, "chance": 1 / number, **found, "train": len(train), "test": len(test)}
        figures = (
            f"{100 / number:11.1f}{100 * found['own']:8.1f}{100 * found['context']:9.1f}{100 * found['words']:8.1f}"
        )
        uses = f"{len(train):,} + {len(test):,}"
        print(f"{word:8}{number:10}{figures}{uses:>15}{time.perf_counter() - begun:9.0f}")
    enough = {word: max(row["own"], row["context"]) >= row["chance"] + ABOVE for word, row in rows.items()}
    print(f"at least {100 * ABOVE:.0f} points above chance by sense weights: {enough}")
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    told = {"command": " ".join(sys.argv), "commit": commit, "seed": given.seed, "machine": platform.processor()}
    print(json.dumps({**told, "device": given.device, "words": rows, "enough": enough}))


if __name__ == "__main__":
    main()
