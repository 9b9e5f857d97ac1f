"""What `transformers` makes of the same minutes: a Marian-shaped model by its own trainer, on the same subwords.

    anaphora train OURS --source train.de --target train.en … training.max_minutes=8
    python benchmarks/marian_quality.py train --run OURS --minutes 8 --source test.de --out marian.en
    anaphora translate OURS test.de > ours.en
    python benchmarks/marian_quality.py verdict --references test.en marian.en ours.en

`train` takes corpus, vocabulary and dimensions of the run OURS, not its weights: `MarianMTModel` from a fresh start,
`Seq2SeqTrainer` with bfloat16, fused AdamW, length grouping, and what is usual for a corpus of this size (fairseq's
recipe for IWSLT'14: dropout 0.3, rate 5e-4 by inverse square root after 4,000 updates, label smoothing 0.1). Validation
and the start of the trainer count as training time, as they do with us; the checkpoint with the best validation loss
translates, by beam search. `verdict` gives sacreBLEU of each file and paired bootstrap tests against the first.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from marian_layout import marian_config

import anaphora
from anaphora.data.batches import Batches
from anaphora.data.corpus import Corpus
from anaphora.data.formats import read_column
from anaphora.data.preparation import open_prepared
from anaphora.folder import DATA
from anaphora.tokenizers.tokenizer import BOS, EOS, PAD, Tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    train = parts.add_parser("train")
    train.add_argument("--run", type=Path, required=True, help="of ours: its corpus, vocabulary and dimensions")
    train.add_argument("--minutes", type=float, default=8.0)
    train.add_argument("--updates", type=int, help="end after so many updates, whatever the time")
    train.add_argument("--source", required=True, help="lines to translate at the end")
    train.add_argument("--out", type=Path, required=True, help="their translations")
    train.add_argument("--batch-tokens", type=int, default=4096)
    train.add_argument("--learning-rate", type=float, default=5e-4)
    train.add_argument("--warmup", type=int, default=4000)
    train.add_argument("--dropout", type=float, default=0.3)
    train.add_argument("--evaluate-every", type=int, default=1000)
    train.add_argument("--beam", type=int, default=5)
    train.add_argument("--seed", type=int, default=1)
    verdict = parts.add_parser("verdict")
    verdict.add_argument("hypotheses", nargs="+", help="files; the first is the one to beat")
    verdict.add_argument("--references", required=True)
    verdict.add_argument("--limit", type=float, default=1.0, help="BLEU that the others should have more")
    arguments = parser.parse_args()
    print(json.dumps(learn(arguments) if arguments.part == "train" else judge(arguments)))


def learn(arguments: argparse.Namespace) -> dict[str, Any]:
    from transformers import (
        DataCollatorForSeq2Seq,
        MarianMTModel,
        PreTrainedTokenizerFast,
        Seq2SeqTrainer,
        set_seed,
    )

    began = time.perf_counter()
    loaded = anaphora.load(arguments.run, device="cpu")
    prepared = open_prepared(arguments.run / DATA)
    assert prepared.valid is not None
    train, valid = examples(prepared.train), examples(prepared.valid)
    batches = Batches(prepared.train, batch_tokens=arguments.batch_tokens, seed=1).count(0)
    rows = round(len(prepared.train) / batches)
    set_seed(arguments.seed)
    # of Marian's own kind, its weights drawn by itself
    model = MarianMTModel(marian_config(loaded.model, dropout=arguments.dropout))
    own = loaded.source_tokenizer
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_library(own), pad_token=own.token(PAD), bos_token=own.token(BOS), eos_token=own.token(EOS)
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Seq2SeqTrainer(
            model=model,
            args=trainer_settings(arguments, folder, rows),
            train_dataset=train,  # type: ignore[arg-type]
            eval_dataset=valid,  # type: ignore[arg-type]
            data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        )
        trainer.add_callback(_limit(60 * arguments.minutes))
        started = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - started
        best = min(record["eval_loss"] for record in trainer.state.log_history if "eval_loss" in record)
    model = trainer.model.eval()
    translations = translate(model, own, loaded.target_tokenizer, lines_of(arguments.source), arguments.beam)
    arguments.out.write_text("".join(f"{line}\n" for line in translations), encoding="utf-8")
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "updates": trainer.state.global_step,
        "epochs": trainer.state.epoch,
        "sentences_an_update": rows,
        "seconds": seconds,
        "before": started - began,
        "validation_loss": best,
        "device": str(model.device),
    }


def lines_of(name: str) -> list[str]:
    return list(read_column([name], "source", Counter()))


def examples(corpus: Corpus) -> list[dict[str, list[int]]]:
    """Pairs as the trainer takes them, ids and marks those of our batches."""
    found = []
    for row in range(len(corpus)):
        source, target = (corpus.ids(side, [row])[0].tolist() for side in ("source", "target"))
        found.append({"input_ids": [*source, EOS], "attention_mask": [1] * (len(source) + 1), "labels": [*target, EOS]})
    return found


def trainer_settings(arguments: argparse.Namespace, folder: str, rows: int) -> Any:
    from transformers import Seq2SeqTrainingArguments

    gpu = torch.cuda.is_available()
    return Seq2SeqTrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=rows,
        per_device_eval_batch_size=rows,
        max_steps=arguments.updates or 1_000_000,
        learning_rate=arguments.learning_rate,
        lr_scheduler_type="inverse_sqrt",
        warmup_steps=arguments.warmup,
        adam_beta2=0.98,
        weight_decay=1e-4,
        max_grad_norm=1.0,
        label_smoothing_factor=0.1,
        train_sampling_strategy="group_by_length",
        optim="adamw_torch_fused",
        bf16=gpu,
        use_cpu=not gpu,
        dataloader_pin_memory=gpu,
        dataloader_num_workers=2 if gpu else 0,
        eval_strategy="steps",
        eval_steps=arguments.evaluate_every,
        save_strategy="steps",
        save_steps=arguments.evaluate_every,
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=arguments.seed,
    )


def _limit(seconds: float) -> Any:
    """Stops training when its time is over; the end is validated and saved too."""
    from transformers import TrainerCallback

    class Limit(TrainerCallback):
        began = 0.0

        def on_train_begin(self, *rest: Any, **more: Any) -> None:
            self.began = time.perf_counter()

        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            if time.perf_counter() - self.began >= seconds:
                control.should_training_stop = control.should_evaluate = control.should_save = True

    return Limit()


def _library(tokenizer: Tokenizer) -> Any:
    import tokenizers

    return tokenizers.Tokenizer.from_str(tokenizer.to_json())


def translate(model: Any, source: Tokenizer, target: Tokenizer, lines: list[str], beam: int) -> list[str]:
    """By its own `generate`, lines of about the same length together, the source cut as it was for learning."""
    encoded = [[*ids, EOS] for ids in source.encode_batch(lines)]
    found = [""] * len(lines)
    order = sorted(range(len(lines)), key=lambda i: len(encoded[i]))
    for start in range(0, len(order), 128):
        places = order[start : start + 128]
        width = max(len(encoded[i]) for i in places)
        ids = torch.full((len(places), width), PAD, device=model.device)  # (B, S)
        for row, i in enumerate(places):
            ids[row, : len(encoded[i])] = torch.tensor(encoded[i])
        with torch.no_grad():
            said = model.generate(
                input_ids=ids, attention_mask=(ids != PAD).long(), num_beams=beam, max_new_tokens=2 * width + 20
            )
        for i, row in zip(places, said.tolist()):
            found[i] = target.decode([id for id in row if id not in (BOS, EOS, PAD)])
    return found


def judge(arguments: argparse.Namespace) -> dict[str, Any]:
    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest

    references, systems = lines_of(arguments.references), [(name, lines_of(name)) for name in arguments.hypotheses]
    for name, lines in systems:
        if len(lines) != len(references):
            raise SystemExit(f"{name} has {len(lines)} lines, {arguments.references} {len(references)}")
    test = PairedTest(systems, {"BLEU": BLEU(references=[references])}, references=None, test_type="bs", n_samples=1000)
    signatures, scores = test()
    for name, score in zip(scores["System"], scores["BLEU"]):
        p = "" if score.p_value is None else f"  p = {score.p_value:.4f}"
        print(f"{name}  {score.score:.2f} ({score.mean:.2f} ± {score.ci:.2f}){p}")
    print(signatures["BLEU"].format(short=True))
    first = scores["BLEU"][0].score
    wins = {name: score.score - first for name, score in zip(scores["System"][1:], scores["BLEU"][1:])}
    return {"bleu": first, "more": wins, "limit": arguments.limit}


if __name__ == "__main__":
    main()
