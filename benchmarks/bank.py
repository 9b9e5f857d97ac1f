"""*Bank* in context: at which layer do vectors know a word's sense? CoarseWSD-20, ten words (docs/lectures/10-bank.md).

    python benchmarks/bank.py --data shared/data/wsd [--more wiki-en.txt.xz --megabytes 20] [--picture bank.png]
        [--words bank crane] [--steps 300] [--device cuda] [--work DIR] [KEY=VALUE …]

An LSTM and a masked Transformer encoder learn the sentences to learn from (of all words, without their senses) and as
much of other text as --megabytes says, lower-cased and with punctuation apart like them, by `anaphora.train`. Then each
word's vectors, `TextModel.word_vectors(layer=…)`, are put with the nearest mean vector of a sense. Accuracy is given
over all uses and, since one sense is often rare, as the mean over senses. The files of --data are WORD.train.tsv.gz and
WORD.test.tsv.gz: sense, place of the word, sentence. The last line is JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import anaphora
from anaphora.data.formats import read_rows
from anaphora.evaluation.sense_scores import SenseAccuracy
from anaphora.lectures.bank import Use, always_commonest, by_layer
from anaphora.models.registry import system
from anaphora.pipelines.text_model import TextModel

READERS = ("lstm", "transformer-encoder")
SETTINGS: dict[str, Any] = {
    "data.boundaries": "lines",
    "data.hold_out": 200,
    "tokenizer.kind": "word",
    "tokenizer.split": "whitespace",
    "tokenizer.fallback": "unk",
    "tokenizer.minimum_count": 10,
    "model.dim": 64,
    "model.layers": 2,
    "model.dropout": 0.1,
    "training.batch_tokens": 2048,
    "training.learning_rate": 2e-3,
    "training.samples": 0,
}
"""What both readers share; the rest is what their recipes have for so much text."""
OWN: dict[str, dict[str, Any]] = {
    "lstm": {},
    "transformer-encoder": {"model.heads": 4, "model.feed_forward": 256},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of WORD.train.tsv.gz and WORD.test.tsv.gz")
    parser.add_argument("--words", nargs="*", help="only these; all that are there unless given")
    parser.add_argument("--more", type=Path, help="other text to learn from, one paragraph a line")
    parser.add_argument("--megabytes", type=float, default=20.0, help="how much of it")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--work", type=Path, help="where the models are kept; nowhere unless given")
    parser.add_argument("--picture", type=Path, help="draw accuracy by layer (.png or .svg)")
    parser.add_argument(
        "settings", nargs="*", metavar="KEY=VALUE", help="settings of both models, as far as each has them"
    )
    given = parser.parse_args()
    train, test = read_uses(given.data, "train", given.words), read_uses(given.data, "test", given.words)
    with tempfile.TemporaryDirectory(prefix="anaphora-") as name:
        work = given.work or Path(name)
        work.mkdir(parents=True, exist_ok=True)
        text = work / "text.txt"
        lines = write_text(text, train, given.more, given.megabytes)
        print(f"{lines:,} lines to learn from, {len(train):,} of them with a word whose sense is known")
        found, costs = {}, {}
        for reader in READERS:
            limits = {"training.max_steps": given.steps, "training.seed": given.seed}
            limits["training.checkpoint_every"] = max(1, given.steps // 2)
            own = {**SETTINGS, **OWN[reader], **limits, **said(given.settings, reader)}
            settings = [f"{key}={value}" for key, value in own.items()]
            outcome = anaphora.train(work / reader, text=text, recipe=reader, settings=settings, device=given.device)
            model = anaphora.load(work / reader, given.device)
            assert isinstance(model, TextModel)
            found[reader] = by_layer(vectors_of(model), layers_of(model), fitting(model, train), fitting(model, test))
            costs[reader] = {"parameters": outcome.parameters, "seconds": round(outcome.seconds), **outcome.validation}
            print(f"{reader}: {outcome.parameters:,} parameters, {outcome.seconds:.0f} s, {outcome.steps} updates")
    blind = {word: always_commonest(train, test, word) for word in sorted({use.word for use in test})}
    tell(found, blind)
    if given.picture is not None:
        draw(found, blind, given.picture)
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    numbers = {
        reader: {word: [(one.accuracy, one.macro) for one in row] for word, row in own.items()}
        for reader, own in found.items()
    }
    told = {"command": " ".join(sys.argv), "commit": commit, "seed": given.seed, "machine": platform.processor()}
    print(json.dumps({**told, "costs": costs, "found": numbers}))


def said(settings: list[str], reader: str) -> dict[str, str]:
    """The settings given, without those of a model that this reader does not have (an LSTM has no heads)."""
    known = {f"model.{field.name}" for field in dataclasses.fields(system(reader).settings_class())}
    pairs = dict(one.split("=", 1) for one in settings)
    return {key: value for key, value in pairs.items() if not key.startswith("model.") or key in known}


def read_uses(folder: Path, part: str, words: list[str] | None) -> list[Use]:
    """The uses of train or test, of these words or of all."""
    uses = []
    for file in sorted(folder.glob(f"*.{part}.tsv.gz")):
        word = file.name.split(".")[0]
        if words and word not in words:
            continue
        for line in gzip.decompress(file.read_bytes()).decode("utf-8").splitlines():
            sense, index, text = line.split("\t")
            uses.append(Use(word, sense, int(index), text))
    if not uses:
        raise SystemExit(f"{folder} has no WORD.{part}.tsv.gz")
    return uses


def write_text(file: Path, train: list[Use], more: Path | None, megabytes: float) -> int:
    """The sentences to learn from, each once, and other text in the same dress; how many lines that is."""
    lines = list(dict.fromkeys(use.text for use in train))
    left = 1e6 * megabytes
    for row in read_rows({"text": [str(more)]}, strict=False) if more else ():
        for sentence in re.split(r"(?<=[.!?]) +(?=[A-Z])", row[0]):
            dressed = " ".join(re.findall(r"\w+(?:[-.]\w+)*|[^\w\s]", sentence.lower()))
            if 4 <= dressed.count(" ") < 100:
                lines.append(dressed)
                left -= len(dressed)
        if left < 0:
            break
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return len(lines)


def layers_of(model: TextModel) -> int:
    from anaphora.decoding.text_vectors import layers_of

    return layers_of(model.model)


def fitting(model: TextModel, uses: list[Use]) -> list[Use]:
    """Those whose sentence is not too long for the model."""
    longest = model.model.max_length
    return uses if longest is None else [use for use in uses if len(use.text.split()) + 2 <= longest]


def vectors_of(model: TextModel) -> Any:
    return lambda lines, layer: model.word_vectors(lines, layer=layer, split="whitespace")


Found = dict[str, dict[str, list[SenseAccuracy]]]


def tell(found: Found, blind: dict[str, SenseAccuracy]) -> None:
    """Two tables: over all uses, and the mean over senses."""
    for what, key in (("accuracy, percent", "accuracy"), ("mean over senses, percent", "macro")):
        print(f"\n{what:20}{'':22}" + "".join(f"{word:>8}" for word in blind) + "    mean")
        rows = {("the commonest", ""): [getattr(blind[word], key) for word in blind]}
        for reader, own in found.items():
            for layer in range(len(next(iter(own.values())))):
                rows[reader, f"layer {layer}"] = [getattr(own[word][layer], key) for word in blind]
        for (reader, layer), values in rows.items():
            cells = "".join(f"{100 * value:8.1f}" for value in [*values, statistics.mean(values)])
            print(f"{reader:32}{layer:10}{cells}")


def draw(found: Found, blind: dict[str, SenseAccuracy], picture: Path) -> None:
    """The mean over senses by layer: *bank*, and the mean of all words."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ink, colors = "#222222", {"lstm": "#7b3fa0", "transformer-encoder": "#1f5fa8"}
    figure, panels = plt.subplots(1, 2, figsize=(9.6, 4.2), dpi=150, layout="constrained", sharey=True)
    for panel, (title, words) in zip(panels, (("bank", ["bank"]), (f"all {len(blind)} words, mean", list(blind)))):
        words = [word for word in words if word in blind]
        layers = range(len(next(iter(next(iter(found.values())).values()))))
        rows = {
            reader: [100 * statistics.mean(own[word][layer].macro for word in words) for layer in layers]
            for reader, own in found.items()
        }
        for reader, values in rows.items():
            panel.plot(layers, values, color=colors[reader], linewidth=2.2, marker="o", markersize=6, label=reader)
            for layer in layers[1:]:
                above = values[layer] == max(row[layer] for row in rows.values())
                panel.annotate(
                    f"{values[layer]:.0f}", (layer, values[layer]), (0, 8 if above else -8),
                    textcoords="offset points", color=colors[reader], ha="center",
                    va="bottom" if above else "top", fontsize=10,
                )  # fmt: skip
        level = 100 * statistics.mean(blind[word].macro for word in words)
        panel.axhline(level, color="#9a9a9a", linewidth=1.1, linestyle=(0, (4, 3)))
        panel.text(0.04, 0.03, f"dashed: always the commonest sense, {level:.0f}", transform=panel.transAxes,
                   fontsize=9.5, color="#6f6f6f")  # fmt: skip
        panel.set_title(title, loc="left", color=ink, fontsize=12.5, pad=10)
        panel.set_xticks(list(layers), ["0\ntable", *(str(layer) for layer in layers[1:])])
        panel.set_xlabel("layer", color=ink, fontsize=10.5)
        panel.grid(axis="y", color="#e6e6e6", linewidth=0.8)
        panel.spines[["top", "right", "left"]].set_visible(False)
        panel.tick_params(colors=ink, length=0, labelsize=10)
    panels[0].set_ylim(30, 104)
    panels[0].set_ylabel("uses with the right sense, %\n(mean over senses)", color=ink, fontsize=10.5)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(picture, metadata={"Software": None} if picture.suffix == ".png" else None)


if __name__ == "__main__":
    main()
