"""The training half of marian.py: updates on identical batches, and the two loops as people run them."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from marian_layout import marian_twin
from torch import Tensor, nn

import anaphora
from anaphora.data.batches import Batches
from anaphora.data.preparation import open_prepared
from anaphora.folder import DATA
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD
from anaphora.training.objectives.objective import TranslationBatch, TranslationObjective
from anaphora.training.optimizer import build_optimizer
from anaphora.training.training_settings import TrainingConfig

IGNORED = -100  # the label that Marian's loss leaves out


def training(arguments: argparse.Namespace) -> dict[str, Any]:
    """The same padded tensors through both: forward, backward, clipping, fused AdamW; no label smoothing."""
    loaded = anaphora.load(arguments.model, device="cpu")
    ours, twin = loaded.model, marian_twin(loaded.model)
    objective = TranslationObjective()
    batches = Batches(open_prepared(arguments.model / DATA).train, batch_tokens=arguments.batch_tokens, seed=1)
    sides = {"ours": ours, "Marian": twin}
    optimizers = {name: build_optimizer(model, TrainingConfig(learning_rate=1e-5)) for name, model in sides.items()}

    def loss_of(name: str, batch: TranslationBatch) -> Tensor:
        if name == "ours":
            return objective(ours, batch) / batch.tokens
        labels = batch.labels.masked_fill(batch.labels == PAD, IGNORED)
        mask = (torch.arange(batch.source.shape[1]) < batch.source_lengths[:, None]).long()
        inputs = {"input_ids": batch.source, "attention_mask": mask, "decoder_input_ids": batch.target}
        return twin(**inputs, labels=labels).loss

    first = objective.send(batches.batch(0, 0), torch.device("cpu"))
    with torch.no_grad():  # both without dropout yet
        losses = [float(loss_of(name, first)) for name in sides]
    print(f"loss of the first batch: ours {losses[0]:.6f}, Marian {losses[1]:.6f}")
    steps = arguments.steps or 12
    for model in sides.values():
        model.train()
    spent: dict[str, list[float]] = {name: [] for name in sides}
    tokens = []
    for index in range(steps + 2):
        batch = objective.send(batches.batch(0, index), torch.device("cpu"))
        tokens.append(batch.tokens + batch.source_tokens)
        for name in list(sides) if index % 2 else list(sides)[::-1]:
            began = time.perf_counter()
            loss_of(name, batch).backward()
            nn.utils.clip_grad_norm_(sides[name].parameters(), 1.0)
            optimizers[name].step()
            optimizers[name].zero_grad(set_to_none=True)
            spent[name].append(time.perf_counter() - began)
    seconds = {name: values[2:] for name, values in spent.items()}  # the first two warm up
    ratio = statistics.median(b / a for a, b in zip(seconds["ours"], seconds["Marian"]))
    speeds = {name: sum(tokens[2:]) / sum(values) for name, values in seconds.items()}
    for name, speed in speeds.items():
        print(f"{name:>6}  {speed:8.0f} tokens/s, both sides, without padding")
    limit = arguments.limit or 1.0
    print(f"ratio   {ratio:.2f} × Marian, median of {steps} batches of {arguments.batch_tokens} tokens (limit {limit})")
    return {"ratio": ratio, "limit": limit, "tokens_per_second": speeds, "losses": losses}


def loop(arguments: argparse.Namespace) -> dict[str, Any]:
    """Both from the same weights, on the same pairs, label smoothing and clipping alike."""
    steps = arguments.steps or 40
    warm = max(1, steps // 4)
    rounds = []
    for number in range(arguments.rounds):
        order = [_our_loop, _their_loop] if number % 2 else [_their_loop, _our_loop]
        speeds = {run.__name__: run(arguments, warm, warm + steps) for run in order}
        rounds.append((speeds["_our_loop"], speeds["_their_loop"]))
        print(f"round {number + 1}: ours {rounds[-1][0]:.0f}, Seq2SeqTrainer {rounds[-1][1]:.0f} target tokens/s")
    ratio, limit = statistics.median(ours / theirs for ours, theirs in rounds), arguments.limit or 1.2
    print(f"ratio   {ratio:.2f} × Seq2SeqTrainer, median of {len(rounds)} rounds of {steps} updates (limit {limit})")
    return {"ratio": ratio, "limit": limit, "rounds": rounds, "updates": steps}


def _our_loop(arguments: argparse.Namespace, warm: int, last: int) -> float:
    """`anaphora train --from RUN`: target tokens a second between update `warm` and the last, by the run's own log."""
    config = anaphora.load(arguments.model, device="cpu").config
    data = config.data
    with tempfile.TemporaryDirectory() as folder:
        for name in ("valid.source", "valid.target"):
            (Path(folder) / name).write_text("a\n", encoding="utf-8")  # the last validation is not timed: keep it short
        anaphora.train(
            Path(folder) / "run",
            source=data.sides()["source"],
            target=data.sides()["target"],
            valid_source=str(Path(folder) / "valid.source"),
            valid_target=str(Path(folder) / "valid.target"),
            start_from=arguments.model,
            device="cpu",
            settings={
                "model.dropout": config.model.dropout,
                "training.max_steps": last,
                "training.batch_tokens": arguments.batch_tokens,
                "training.learning_rate": 1e-5,
                "training.schedule": "constant",
                "training.warmup_steps": 0,
                "training.label_smoothing": 0.1,
                "training.consistency": 0.0,  # Seq2SeqTrainer reads each batch once
                "training.clip_norm": 1.0,
                "training.checkpoint_every": 10 * last,
                "training.log_every": 1,
                "training.samples": 0,
            },
        )
        log = (Path(folder) / "run" / "logs" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    updates = {record["step"]: record for record in map(json.loads, log) if record["kind"] == "update"}
    began, ended = updates[warm], updates[last]
    return (ended["tokens"] - began["tokens"]) / (ended["seconds"] - began["seconds"])


def _their_loop(arguments: argparse.Namespace, warm: int, last: int) -> float:
    """`Seq2SeqTrainer` with length grouping and dynamic padding: as many sentences an update as ours has on average."""
    from transformers import (
        DataCollatorForSeq2Seq,
        PreTrainedTokenizerFast,
        Seq2SeqTrainer,
        Seq2SeqTrainingArguments,
        set_seed,
    )

    from tokenizers import Tokenizer

    loaded = anaphora.load(arguments.model, device="cpu")
    corpus = open_prepared(arguments.model / DATA).train
    rows = round(len(corpus) / Batches(corpus, batch_tokens=arguments.batch_tokens, seed=1).count(0))
    examples = []
    for row in range(len(corpus)):
        source, target = (corpus.ids(side, torch.tensor([row]).numpy())[0].tolist() for side in ("source", "target"))
        examples.append(
            {"input_ids": [*source, EOS], "attention_mask": [1] * (len(source) + 1), "labels": [*target, EOS]}
        )
    own = loaded.source_tokenizer
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(own.to_json()),
        pad_token=own.token(PAD),
        bos_token=own.token(BOS),
        eos_token=own.token(EOS),
    )

    class Watched(Seq2SeqTrainer):
        """Notes when each update ended and how many target tokens it had."""

        ends: list[float]
        tokens: list[int]

        def training_step(self, model: nn.Module, inputs: dict[str, Any], *rest: Any) -> Tensor:
            self.tokens.append(int((inputs["labels"] != IGNORED).sum()))
            return super().training_step(model, inputs, *rest)

        def log_step(self) -> None:
            self.ends.append(time.perf_counter())

    twin = marian_twin(loaded.model)
    set_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        settings = Seq2SeqTrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=rows,
            max_steps=last,
            learning_rate=1e-5,
            lr_scheduler_type="constant",
            adam_beta2=0.98,
            max_grad_norm=1.0,
            label_smoothing_factor=0.1,
            train_sampling_strategy="group_by_length",
            optim="adamw_torch_fused",
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            use_cpu=True,
            dataloader_pin_memory=False,
            disable_tqdm=True,
            seed=1,
        )
        trainer = Watched(
            model=twin,
            args=settings,
            train_dataset=examples,  # type: ignore[arg-type]
            data_collator=DataCollatorForSeq2Seq(tokenizer, model=twin),
        )
        trainer.ends, trainer.tokens = [], []
        trainer.add_callback(_clock(trainer.log_step))
        trainer.train()
    return sum(trainer.tokens[warm:last]) / (trainer.ends[last - 1] - trainer.ends[warm - 1])


def _clock(note: Any) -> Any:
    from transformers import TrainerCallback

    class Clock(TrainerCallback):
        def on_step_end(self, *arguments: Any, **keywords: Any) -> None:
            note()

    return Clock()
