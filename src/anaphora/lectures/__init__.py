"""The lectures' examples by name: each makes walks from a lecture's inputs with the library's own layers.

    anaphora walk                  lists them
    anaphora walk as-and-bs        shows one

A name leads to a function in one of these modules; nothing is imported, and so no PyTorch loaded, before it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anaphora.explain.trace_parts import Walk

__all__ = ["EXAMPLES", "Example"]


@dataclass(frozen=True)
class Example:
    """One example of a lecture."""

    name: str
    title: str
    page: str
    """Its page, under docs/."""
    make: Callable[[], list[Walk]]
    """Computes its walks, now."""


def _later(module: str, function: str) -> Callable[[], list[Walk]]:
    """A function of a module here, imported when it is called."""

    def make() -> list[Walk]:
        return getattr(import_module(f"{__name__}.{module}"), function)()

    return make


EXAMPLES: dict[str, Example] = {
    example.name: example
    for example in (
        Example(
            "counting",
            "the bigrams of five words, counted and normalized",
            "lectures/0-counting.md",
            _later("counting", "counting"),
        ),
        Example(
            "as-and-bs",
            'find the B in "A A B A": scores, softmax, weighted sum',
            "lectures/1-as-and-bs.md",
            _later("as_and_bs", "as_and_bs"),
        ),
        Example(
            "keys-and-queries",
            "keys and queries by matrices of their own; every word a query",
            "lectures/2-keys-and-queries.md",
            _later("as_and_bs", "keys_and_queries"),
        ),
        Example(
            "the-task",
            "all As → A, any B → B: who learns it, and how far (seconds)",
            "lectures/3-the-task.md",
            _later("the_task", "the_task"),
        ),
        Example(
            "thinking-machines",
            '112 and 96 over 8: the scaled scores of "Thinking Machines"',
            "lectures/4-thinking-machines.md",
            _later("thinking_machines", "thinking_machines"),
        ),
        Example(
            "trick",
            '"That trick was sick": the other words choose the sense',
            "lectures/5-trick.md",
            _later("trick", "trick"),
        ),
        Example(
            "bahdanau",
            "c_t and α of Bahdanau: additive scores over a source",
            "lectures/6-bahdanau.md",
            _later("bahdanau", "bahdanau"),
        ),
        Example(
            "lookup",
            "hard lookup as the limit of soft lookup; why scores are divided by √d",
            "lectures/6-bahdanau.md",
            _later("bahdanau", "lookup"),
        ),
        Example(
            "heads",
            "h heads cost what one does: operations counted",
            "lectures/6-bahdanau.md",
            _later("bahdanau", "heads"),
        ),
        Example(
            "growing-keys",
            "more keys at every step are the same as a mask of -∞",
            "lectures/6-bahdanau.md",
            _later("bahdanau", "growing_keys"),
        ),
        Example(
            "re-averaging",
            "without feed-forward layers a stack only averages again",
            "lectures/7-stack.md",
            _later("stack", "re_averaging"),
        ),
        Example(
            "order",
            "permuted words, permuted answers: attention is blind to order",
            "lectures/7-stack.md",
            _later("stack", "order"),
        ),
        Example(
            "quadratic",
            "what n words cost: n² products, n² or n numbers in memory",
            "lectures/7-stack.md",
            _later("stack", "quadratic"),
        ),
        Example(
            "receptive-field",
            "how far a place sees: convolutions against attention",
            "lectures/7-stack.md",
            _later("stack", "receptive_field"),
        ),
        Example(
            "all-scores",
            "every score on one recall task, linear attention too (half a minute)",
            "lectures/8-all-scores.md",
            _later("all_scores", "all_scores"),
        ),
        Example(
            "forgetting",
            "a name asked for at growing distance, by every rung (minutes)",
            "lectures/9-forgetting.md",
            _later("forgetting", "forgetting"),
        ),
        Example(
            "bank",
            "which layer knows the sense of *bank*: an LSTM and a Transformer (a minute)",
            "lectures/10-bank.md",
            _later("bank", "bank"),
        ),
        Example(
            "one-hot",
            "an embedding as a product with one-hot rows, and as a table",
            "lectures/11-word-vectors.md",
            _later("word_vectors", "one_hot"),
        ),
        Example(
            "window",
            "who stands within two words of *professor* and of *student*",
            "lectures/11-word-vectors.md",
            _later("word_vectors", "window"),
        ),
        Example(
            "skip-gram",
            "what skip-gram and CBOW learn, with all gradients",
            "lectures/11-word-vectors.md",
            _later("word_vectors", "skip_gram"),
        ),
        Example(
            "negatives",
            "words are drawn by their counts to the power of 3/4",
            "lectures/11-word-vectors.md",
            _later("word_vectors", "negatives"),
        ),
        Example(
            "ice-and-steam",
            "P(k|ice), P(k|steam) and their ratio, from counts",
            "lectures/12-ice-and-steam.md",
            _later("ice_and_steam", "ice_and_steam"),
        ),
        Example(
            "weat",
            "the association test of four words, by hand",
            "lectures/13-weat.md",
            _later("weat", "weat"),
        ),
    )
}
