"""How a trained model speaks: the one search, for any translator and any language model, on tensors of ids.

    from anaphora import decoding

    found = decoding.search(model, source, beam=4)        # a translator: B lists of hypotheses, best first
    found = decoding.generate(model, prompts, tokens=50)  # a language model: what follows each prompt
    found[0][0].tokens, found[0][0].score

Texts in and texts out are what `anaphora.load` gives; here are ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anaphora.arguments.public_names import resolved_when_used

if TYPE_CHECKING:
    from anaphora.decoding.beam_search import search
    from anaphora.decoding.decoding_settings import DecodingConfig
    from anaphora.decoding.generation import generate
    from anaphora.decoding.hypothesis import Hypothesis
else:
    __getattr__, __dir__ = resolved_when_used(__name__)

__all__ = ["DecodingConfig", "Hypothesis", "generate", "search"]
