"""The lecture's road to word vectors: one-hot and lookup, contexts, how skip-gram and CBOW learn, what is drawn.

The slides give one-hot rows of five words, three rows of a 4-dimensional table (the other two, and all numbers of the
objective, are ours), and one sentence with a window of two words.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from anaphora.explain.trace_parts import Check, Step, Walk

F64 = NDArray[np.float64]

WORDS = ["cat", "mat", "on", "sat", "the"]
READ = ["the", "cat", "sat"]
TABLE = [
    [1.2, -0.1, 4.3, 3.2],
    [0.4, 2.5, -0.9, 0.5],
    [2.1, 0.3, 0.1, 0.4],
    [0.7, 0.2, 1.5, -1.0],
    [0.1, 0.9, 0.3, 0.2],
]
"""cat, mat and on as the slide has them; sat and the stand where it has dots."""
SENTENCE = "the professor is scribbling on the board and the student is writing down the scribbles"
ASKED = ["professor", "student"]
WINDOW = 2


def one_hot() -> list[Walk]:
    """A row of zeros and a one, times a table, is a row of the table; and its gradient goes to that row alone."""
    import torch

    from anaphora.nn.embedding import Embedding

    x = np.array([[float(word == read) for word in WORDS] for read in READ])  # (T, V)
    e = np.array(TABLE)  # (V, D)
    z = x @ e  # (T, D)
    g = np.array([[1.0, 0.0, 2.0, 0.0], [0.5, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])  # (T, D)
    with torch.random.fork_rng(devices=[]):  # a new table is drawn, and thrown away
        layer = Embedding(len(WORDS), 4, positions="none", pad=None, scaled=False).double()
    with torch.no_grad():
        layer.table.weight.copy_(torch.from_numpy(e))
    looked = layer(torch.tensor([[WORDS.index(word) for word in READ]]))[0]
    looked.backward(torch.from_numpy(g))
    assert layer.table.weight.grad is not None
    numbers = [f"{n}" for n in range(1, 5)]
    steps = [
        Step("X", "", "each word read is a row with one 1: as wide as the vocabulary", READ, WORDS, x),
        Step("E", "", "the table: a few numbers for each word", WORDS, numbers, e, dimensions=True),
        Step("Z", "Z = X E", "the product picks the row of each word", READ, numbers, z, dimensions=True),
        Step("X Xᵀ", "", "one-hot words are all equally far apart", READ, READ, x @ x.T),
        Step("Z Zᵀ", "", "rows of a table need not be", READ, READ, z @ z.T),
        Step("dZ", "", "what a loss wants changed in Z (ours)", READ, numbers, g, dimensions=True),
        Step("dE", "dE = Xᵀ dZ", "goes to the rows that were read", WORDS, numbers, x.T @ g, dimensions=True),
    ]
    grad = layer.table.weight.grad.numpy()
    checks = [
        Check("the library's Embedding, which looks rows up, gives Z", _apart(looked.detach().numpy(), z), 0.0),
        Check("and its gradient is dE", _apart(grad, x.T @ g), 1e-12),
    ]
    says = "“the cat sat”, of a vocabulary of five words. The library never makes X: it takes the rows."
    return [Walk("one-hot", "One-hot and lookup", says, steps, checks)]


def window() -> list[Walk]:
    """Who stands within two words of *professor* and of *student*."""
    words = list(dict.fromkeys(SENTENCE.split()))
    text = SENTENCE.split()
    near = np.zeros((len(ASKED), len(words)))
    weighed = near.copy()
    for row, asked in enumerate(ASKED):
        for place, word in enumerate(text):
            for other in range(max(place - WINDOW, 0), min(place + WINDOW, len(text) - 1) + 1):
                if word == asked and other != place:
                    near[row, words.index(text[other])] += 1
                    weighed[row, words.index(text[other])] += 1 / abs(other - place)
    counted = _counted(text, words)
    short = [word for word in words if near[:, words.index(word)].any()]
    columns = [words.index(word) for word in short]
    steps = [
        Step("C", "", "how often each word stands within two words of it", ASKED, short, near[:, columns]),
        Step("X", "X = Σ 1/d", "GloVe: one that is d words away counts 1/d", ASKED, short, weighed[:, columns]),
    ]
    checks = [Check("the table that the library counts is X", _apart(counted, weighed), 1e-6)]
    says = f"“{SENTENCE}”; window {WINDOW}; words that are near neither are left out."
    return [Walk("window", "What is a word's context?", says, steps, checks)]


def _counted(text: list[str], words: list[str]) -> F64:
    """The rows of the words that are asked about, by the code that counts corpora."""
    from anaphora.models.vectors.cooccurrence import count_cooccurrences
    from anaphora.tokenizers.tokenizer import BOS, EOS, SPECIALS

    ids = np.array([BOS, *(len(SPECIALS) + words.index(word) for word in text), EOS], np.uint32)
    with TemporaryDirectory() as folder:
        table = count_cooccurrences(ids, words, Path(folder) / "table", window=WINDOW, threads=1)
        return np.stack([table.counts(word).astype(np.float64) for word in ASKED])


# -- what is learned ---------------------------------------------------------------------------------------------------

AROUND = ["the", "is"]
HIDDEN = np.array([[1.0, 0.0, -0.5], [0.5, 1.0, 0.5]])
"""h of two words around."""
OUTPUTS = ["professor", "board", "down"]
OUTPUT = np.array([[0.5, 0.5, 0.0], [-0.5, 1.0, 1.0], [1.0, 0.0, 0.0]])
"""o of the word that came, and of two that were drawn."""
LABELS = np.array([1.0, 0.0, 0.0])


def sigmoid(x: F64) -> F64:
    return 1 / (1 + np.exp(-x))


def gradients(h: F64, o: F64, labels: F64) -> tuple[float, F64, F64, F64]:
    """Loss, errors σ(h·o) - label (J, K), and the gradients of h (J, D) and o (K, D)."""
    scores = h @ o.T
    loss = -(labels * np.log(sigmoid(scores)) + (1 - labels) * np.log(sigmoid(-scores))).sum()
    errors = sigmoid(scores) - labels
    return float(loss), errors, errors @ o, errors.T @ h


def skip_gram() -> list[Walk]:
    """The objective with its gradients: of skip-gram, in which each word around learns, and of CBOW, in which their
    mean does."""
    return [_objective("skip-gram"), _objective("cbow")]


def _objective(name: str) -> Walk:
    cbow = name == "cbow"
    h, rows = (HIDDEN.mean(0, keepdims=True), ["mean"]) if cbow else (HIDDEN, AROUND)
    loss, errors, of_h, of_o = gradients(h, OUTPUT, LABELS)
    numbers = ["1", "2", "3"]
    steps = [
        Step("h", "h = mean of the rows around" if cbow else "", "what predicts", rows, numbers, h, dimensions=True),
        Step("o", "", "the word that came, and two that were drawn", OUTPUTS, numbers, OUTPUT, dimensions=True),
        Step("S", "S = h oᵀ", "", rows, OUTPUTS, h @ OUTPUT.T),
        Step("σ(S)", "", "how sure it is that the word came", rows, OUTPUTS, sigmoid(h @ OUTPUT.T), shares=True),
        Step("L", "L = -log σ(S₁) - Σ log σ(-S_k)", "", ["L"], ["all"], [[loss]]),
        Step("e", "e = σ(S) - label", "what is wrong with it: 1 for the first, 0 for others", rows, OUTPUTS, errors),
        Step("dh", "dh = e o", "", rows, numbers, of_h, dimensions=True),
        Step("do", "do = eᵀ h", "", OUTPUTS, numbers, of_o, dimensions=True),
    ]
    if cbow:  # the derivative of a mean is shared out; the programs give each row the whole
        shared = np.repeat(of_h / len(AROUND), len(AROUND), axis=0)
        steps.append(
            Step("dh/2", "", "the true gradient of each word around", AROUND, numbers, shared, dimensions=True)
        )
    checks = [Check("autograd has the same gradients", _by_autograd(cbow, of_h, of_o), 1e-12)]
    if not cbow:
        checks.append(Check("two steps of the compiled loop go down these gradients", _by_library(), 1e-6))
    title = "CBOW: the mean predicts" if cbow else "Skip-gram with negative sampling: each predicts"
    says = (
        "The word is professor; the and is stand around it. The program adds dh, and not its half, to both; so does "
        "ours."
        if cbow
        else "The word is professor; the and is stand around it; board and down were drawn."
    )
    return Walk(name, title, says, steps, checks)


def _by_autograd(cbow: bool, of_h: F64, of_o: F64) -> float:
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    h, o = (torch.tensor(table, requires_grad=True) for table in (HIDDEN, OUTPUT))
    rows = h.mean(0, keepdim=True) if cbow else h
    labels = torch.from_numpy(LABELS).expand(len(rows), -1)
    binary_cross_entropy_with_logits(rows @ o.T, labels, reduction="sum").backward()
    assert h.grad is not None and o.grad is not None
    wanted = np.repeat(of_h / len(AROUND), len(AROUND), axis=0) if cbow else of_h
    return max(_apart(h.grad.numpy(), wanted), _apart(o.grad.numpy(), of_o))


def _by_library() -> float:
    """Two words, one of which is so frequent that it alone is ever drawn: the line "the professor" is learned in two
    steps that can be foretold."""
    from anaphora.models.vectors.vector_settings import Word2VecConfig, Word2VecTraining
    from anaphora.models.vectors.word2vec import Word2Vec
    from anaphora.tokenizers.tokenizer import BOS, EOS, SPECIALS

    the, professor, rate = 0, 1, 0.1
    hidden, output = HIDDEN.copy(), OUTPUT[:2].copy()
    config = Word2VecConfig(dim=3, window=2, negatives=2, sample=0.0, shrink_window=False)
    model = Word2Vec(config, ["the", "professor"], np.array([10**15, 1]))
    for table, values in ((model.hidden, hidden), (model.output, output)):
        table.reshape(-1, model.stride)[:, :3] = values
    ids = np.array([BOS, len(SPECIALS) + the, len(SPECIALS) + professor, EOS], np.uint32)
    training = Word2VecTraining(epochs=1, threads=1, learning_rate=rate, final_rate=rate)
    model.train(ids, training)
    for word, around, drawn in (
        (the, professor, []),
        (professor, the, [the, the]),
    ):  # a word is not drawn against itself
        rows = [word, *drawn]
        labels = np.array([1.0] + [0.0] * len(drawn))
        _, _, of_h, of_o = gradients(hidden[[around]], output[rows], labels)
        hidden[around] -= rate * of_h[0]
        np.subtract.at(output, rows, rate * of_o)
    found = [table.reshape(-1, model.stride)[:, :3] for table in (model.hidden, model.output)]
    return max(_apart(found[0], hidden), _apart(found[1], output))


def negatives() -> list[Walk]:
    """Which words are drawn: by their counts to the power of 3/4."""
    from anaphora.models.vectors.kernels.word2vec_updates import alias_table

    counts = Counter(SENTENCE.split())
    words = [word for word, _ in counts.most_common()]
    c = np.array([[float(counts[word]) for word in words]])
    powered = c**0.75
    table = alias_table(powered[0])
    stays, other = (table >> np.uint64(32)).astype(np.float64) / 2**32, (table & np.uint64(0xFFFFFFFF)).astype(np.int64)
    drawn = stays.copy()
    np.add.at(drawn, other, 1 - stays)
    shown = [words.index(word) for word in ("the", "is", "professor")]
    names = [words[place] for place in shown]
    steps = [
        Step("c", "", "how often they come in the sentence", ["c"], names, c[:, shown]),
        Step("c / N", "", "their share of it", ["share"], names, (c / c.sum())[:, shown], shares=True),
        Step("c^¾", "", "", ["c^¾"], names, powered[:, shown]),
        Step("P", "P = c^¾ / Σ c^¾", "drawn so often", ["P"], names, (powered / powered.sum())[:, shown], shares=True),
        Step("P / (c / N)", "", "frequent words less than they come, rare ones more", ["times"], names,
             (powered / powered.sum() / (c / c.sum()))[:, shown]),
    ]  # fmt: skip
    off = _apart(drawn / len(words), powered[0] / powered.sum())
    checks = [Check("the table that the library draws from has these probabilities", off, 1e-8)]
    says = f"Of the {len(words)} words of “{SENTENCE}”, three."
    return [Walk("negatives", "The power of 3/4", says, steps, checks)]


def _apart(a: NDArray[np.floating], b: F64) -> float:
    return float(np.abs(np.asarray(a, np.float64) - b).max())
