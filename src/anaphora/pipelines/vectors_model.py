"""Word vectors in memory, with where they come from: a folder that `anaphora train` wrote, or a file of another tool.

    model = anaphora.load("runs/words")              # or vectors.txt, GoogleNews.bin.gz, glove.6B.100d.txt
    model.vectors.most_similar("king")
    model.vectors.similarity("king", "queen")
    model.vectors.doesnt_match(["breakfast", "lunch", "stone", "dinner"])
    model.vectors.analogy("man", "king", "woman")
    model.evaluate_similarity("wordsim353.tsv").spearman

What vectors can be asked is in models/vectors/word_vectors.py, under names that users of gensim know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from anaphora.arguments.checked import checked
from anaphora.arguments.given import path_of, words_of
from anaphora.arguments.signatures import also_named
from anaphora.config import with_old_names
from anaphora.data.checksums import CHECKSUMS, check_data, check_file
from anaphora.data.phrases import PHRASES
from anaphora.data.prepared_text import TOKENIZER
from anaphora.errors import UserError, option
from anaphora.evaluation.vector_benchmarks import (
    MOST_FREQUENT,
    AnalogyScore,
    SimilarityScore,
    evaluate_analogies,
    evaluate_similarity,
    read_analogies,
    read_similarities,
)
from anaphora.files.foreign import MAX_LARGE_FILE_BYTES, is_there, read_bytes
from anaphora.files.shared_names import name_of
from anaphora.folder import (
    CARD,
    CONFIG,
    COOCCURRENCES,
    METRICS,
    WEIGHTS,
    atomic_folder,
    check_new_file,
    read_config,
    read_metrics,
    refuse_existing_folder,
    write_bytes,
    write_config,
    write_json,
    write_text,
)
from anaphora.models.vectors.vector_files import load_vectors, save_vectors
from anaphora.models.vectors.word_vectors import F32, NUMBER_NAMES, Near, Vectors
from anaphora.results import Info, count
from anaphora.tasks.recipes import RunConfig
from anaphora.tokenizers.tokenizer import Tokenizer
from anaphora.tokenizers.tokenizer_file import check_tokenizer
from anaphora.version import __version__

if TYPE_CHECKING:
    from anaphora.evaluation.weat import Association
    from anaphora.explain.ratios import RatioTable
    from anaphora.explain.vector_map import VectorMap
    from anaphora.models.vectors.cooccurrence import Cooccurrences
    from anaphora.models.vectors.index import VectorIndex

Path_ = str | PathLike[str]
SUFFIXES = (".txt", ".vec", ".bin", ".safetensors")
"""How the names of files of vectors end, .gz taken off."""

GENSIM = (".kv", ".model")
COUNT_AGAIN = "count again: anaphora train NEW --recipe glove --text FILE"


def is_vectors_file(path: Path) -> bool:
    """Whether a path names a file of word vectors, rather than a model folder."""
    return Path(path.name.removesuffix(".gz")).suffix in SUFFIXES and not path.is_dir()


class VectorsModel:
    """Vectors, the settings they were learned with where these are known, and where they stand."""

    def __init__(self, folder: Path, *, verify: bool = True) -> None:
        """verify=False leaves out the checksum, for which the whole file has to be read once more."""
        self.folder = folder
        self.config: RunConfig | None = None
        self.notes: list[str] = []
        if is_vectors_file(folder):
            if not folder.exists():
                raise UserError("there is no such file", file=folder, cure="give a file of vectors, or a folder")
            self.vectors = load_vectors(folder, verify=verify)
            return
        if folder.is_file() and folder.suffix in GENSIM:
            raise UserError(
                "is a file of gensim's own, a pickle by its name, which may run anything when it is opened",
                file=folder,
                cure="have gensim write it: KeyedVectors.load(…).save_word2vec_format('vectors.bin', binary=True)",
            )
        self.config = config = RunConfig.read(read_config(folder), file=str(folder / CONFIG))
        if config.task.opens_as != "vectors":
            raise UserError(
                f"is a model of kind {config.model.kind}, and this needs word vectors",
                file=folder,
                cure="give a folder made by `anaphora train --recipe skipgram`, or a file of vectors",
            )
        self.notes = [str(note) for note in read_metrics(folder).get("notes") or []]
        if (folder / TOKENIZER).exists():  # vectors do without it, but a run that goes on from them does not
            check_tokenizer(folder / TOKENIZER)
        self.vectors = self._read(verify)
        self.vectors.lowercase = config.data.lowercase

    def __repr__(self) -> str:
        words, dim = count(len(self.vectors), "word"), count(self.vectors.vector_size, "dimension")
        return f"<VectorsModel {str(self.folder)!r}: {words}, {dim}>"

    def _read(self, verify: bool) -> Vectors:
        """Those that were written when all was learned, or else of the last checkpoint."""
        from anaphora.tasks.checkpointed_vectors import unfinished_vectors

        assert self.config is not None
        if is_there(self.folder / WEIGHTS):
            return load_vectors(self.folder / WEIGHTS, verify=verify)
        found = unfinished_vectors(self.folder, self.config.vectors[0])
        if found is None:
            raise UserError("holds no vectors yet", file=self.folder, cure="repeat the `anaphora train` command")
        vectors, learned = found
        self.notes.append(f"the run is not finished: {learned.pieces:,} of {learned.of:,} pieces are learned")
        return vectors

    # -- asking --------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.vectors)

    def __contains__(self, word: object) -> bool:
        return word in self.vectors

    def __getitem__(self, word: str | Sequence[str]) -> F32:
        return self.vectors[word]

    @overload
    def neighbours(self, word: str, topn: int = 10) -> Near: ...  # type: ignore[overload-overlap]
    @overload
    def neighbours(self, word: Iterable[str], topn: int = 10) -> dict[str, Near]: ...
    @also_named(**NUMBER_NAMES, words="word")
    @checked(topn=0)
    def neighbours(self, word: str | Iterable[str], topn: int = 10) -> Near | dict[str, Near]:
        """The words nearest to a word, with the cosine of each; of many words, a list for each by its word."""
        near = self.vectors.neighbours(word, topn)
        return near[word] if isinstance(word, str) else near

    @checked()
    def similarity(self, first: str, second: str) -> float:
        """The cosine between two words."""
        return self.vectors.similarity(first, second)

    @also_named(**NUMBER_NAMES)
    @checked(topn=0)
    def most_similar(
        self, positive: str | Sequence[str] = (), negative: str | Sequence[str] = (), topn: int = 10
    ) -> Near:
        """The words nearest to a word, or to the mean of several, those that are negative taken away; of vectors too:
        `vectors.most_similar`."""
        return self.vectors.most_similar(positive, negative, topn)

    @also_named(**NUMBER_NAMES)
    @checked(topn=0)
    def analogy(self, a: str, b: str, c: str, topn: int = 10) -> Near:
        """a is to b as c is to …: the words nearest to b - a + c."""
        return self.vectors.analogy(a, b, c, topn)

    # -- measuring -----------------------------------------------------------------------------------------------------

    @checked(restrict_vocab=1)
    def evaluate_similarity(
        self, path: Path_, *, restrict_vocab: int | None = MOST_FREQUENT, case_insensitive: bool = True
    ) -> SimilarityScore:
        """Spearman's correlation with people's numbers: a file of two words and a number a line."""
        words, units = self.vectors.index_to_key, self.vectors.unit_vectors()
        pairs = read_similarities(path_of(path, "path"))
        return evaluate_similarity(
            words, units, pairs, restrict_vocab=restrict_vocab, case_insensitive=case_insensitive
        )

    @checked(restrict_vocab=1)
    def evaluate_analogies(
        self, path: Path_, *, restrict_vocab: int | None = MOST_FREQUENT, case_insensitive: bool = True
    ) -> AnalogyScore:
        """How many analogies are completed: a file of four words a line, `: name` before a section."""
        words, units = self.vectors.index_to_key, self.vectors.unit_vectors()
        sections = read_analogies(path_of(path, "path"))
        return evaluate_analogies(
            words, units, sections, restrict_vocab=restrict_vocab, case_insensitive=case_insensitive
        )

    @checked()
    def weat(self, path: Path_, *, seed: int = 1) -> Association:
        """The association test of a file's four lists of words (evaluation/weat.py)."""
        from anaphora.evaluation.weat import association, read_word_lists

        lists = read_word_lists(path_of(path, "path"))
        words = {word for part in (lists.targets, lists.attributes) for some in part.values() for word in some}
        units = {word: self.vectors.get_vector(word, norm=True) for word in words if word in self.vectors}
        try:
            return association(units, lists, seed=seed)
        except UserError as error:
            raise UserError(error.what, file=path, cure=error.cure) from None

    # -- looking -------------------------------------------------------------------------------------------------------

    @checked(top=0)
    def ratios(self, first: str, second: str, words: str | Iterable[str] = (), *, top: int = 5) -> RatioTable:
        """P(k | first), P(k | second) and their ratio, of words k or of those that tell the two most apart: asked of
        the counts that GloVe was learned from (explain/ratios.py)."""
        from anaphora.explain.ratios import ratio_table

        if self.config is None or not self.config.vectors[0].from_counts:
            kind = "a file of vectors" if self.config is None else f"a model of kind {self.config.model.kind}"
            raise UserError(
                f"is {kind}: only GloVe learns from a table of which words stand near which",
                file=self.folder,
                cure=f"train with {option('recipe', 'glove')}, and ask that run",
            )
        if not (self.folder / COOCCURRENCES).is_dir():
            raise UserError(
                "has no table of co-occurrences: it stays in the run that counted it",
                file=self.folder,
                cure=f"ask that run, or {COUNT_AGAIN}",
            )
        return ratio_table(self._counted(), first, second, words_of(words), top=top)

    def _counted(self) -> Cooccurrences:
        """GloVe's table, after comparing its checksums."""
        from anaphora.models.vectors.cooccurrence import MANIFEST_FILE, Cooccurrences

        folder = self.folder / COOCCURRENCES
        try:
            check_file(folder, MANIFEST_FILE)
            counted = Cooccurrences(folder)
            check_data(folder, expected=CHECKSUMS in counted.manifest)
        except UserError as error:
            raise UserError(error.what, file=error.file, cure=f"restore it from a copy, or {COUNT_AGAIN}") from None
        return counted

    @checked(number=1, around=0, clusters=1, seed=0)
    def map(
        self,
        words: str | Iterable[str] | None = None,
        *,
        number: int = 200,
        around: int = 0,
        method: Literal["pca", "tsne"] = "pca",
        clusters: int | None = None,
        seed: int = 1,
    ) -> VectorMap:
        """Some words with `around` neighbours of each, or the `number` most frequent ones, as dots on a plane
        (explain/vector_map.py)."""
        from anaphora.explain.vector_map import map_vectors

        chosen = None if words is None else words_of(words)
        how: dict[str, Any] = {"number": number, "around": around, "clusters": clusters, "seed": seed}
        return map_vectors(self.vectors, chosen, method=method, **how)

    @checked()
    def index(self, told: Callable[[str], None] = lambda message: None) -> tuple[VectorIndex, float]:
        """A graph that finds most neighbours without comparing with every word, and the share that it finds
        (models/vectors/index.py). It is built once, and kept beside the vectors."""
        from anaphora.models.vectors.index import kept_index

        return kept_index(self.vectors, self.index_file, told)

    @property
    def index_file(self) -> Path:
        """Where the index is kept: in the folder, or beside the file."""
        if self.folder.is_dir():
            return self.folder / "index.faiss"
        return self.folder.with_name(f"{self.folder.name}.faiss")

    def info(self) -> Info:
        """Everything about these vectors that a program may want to know."""
        vectors, metrics = self.vectors, {} if self.folder.is_file() else read_metrics(self.folder)
        # of a file that was made a folder, nobody knows how it was learned
        config = None if "converted_from" in metrics and "losses" not in metrics else self.config
        facts: dict[str, Any] = {
            "folder": str(self.folder),
            "recipe": None if config is None else config.recipe,
            "kind": "vectors" if config is None else config.model.kind,
            "words": len(vectors),
            "dim": vectors.vector_size,
            "parameters": vectors.vectors.size,
            "subwords": 0 if vectors.subwords is None else len(vectors.subwords.hashes),
            "counts": vectors.counts is not None,
            "longest": float(vectors.norms.max()) if len(vectors) else 0.0,
            "shortest": float(vectors.norms.min()) if len(vectors) else 0.0,
            "notes": self.notes,
            "settings": None if self.config is None else with_old_names(self.config.document()),
            "metrics": metrics,
        }
        return Info(facts, str(self.folder), str(facts["kind"]), f"{len(vectors):,} words")

    # -- writing -------------------------------------------------------------------------------------------------------

    @checked()
    def save(self, path: Path_, *, force: bool = False, header: bool = True, space: str | None = None) -> None:
        """Write a file of another tool, by the end of its name, or else a model folder.

        force: over what exists, but never over a run with its text. header=False: text as GloVe has it. space: what
        stands for a blank inside a word.
        """
        path = path_of(path, "path")
        if is_vectors_file(path):
            check_new_file(path, force=force, inputs=[self.folder])
            save_vectors(self.vectors, path, header=header, space=space)
            return
        if not header or space is not None:
            raise UserError("how text is written means nothing for a folder", file=path, cure="name a .txt file")
        refuse_existing_folder(path, force=force)
        with atomic_folder(path) as folder:
            self._fill(folder, name=path.resolve().name)

    def _fill(self, folder: Path, *, name: str) -> None:
        vectors, metrics = self.vectors, {} if self.folder.is_file() else read_metrics(self.folder)
        config = self.config or vectors_config(vectors.vector_size)
        write_config(folder, config.document())
        words = [word for word in vectors.index_to_key if word.split() == [word]]
        if len(words) == len(vectors):  # a tokenizer of words between blanks has no room for others
            Tokenizer.of_words(words).save(folder / TOKENIZER)
        save_vectors(vectors, folder / WEIGHTS)
        if is_there(self.folder / PHRASES):  # whoever goes on from the folder joins the same
            write_bytes(folder / PHRASES, read_bytes(self.folder / PHRASES, MAX_LARGE_FILE_BYTES))
        about = metrics or {"anaphora": __version__, "finished": True, "vocabulary": len(vectors)}
        write_json(folder / METRICS, {**about, "converted_from": name_of(self.folder)})
        size = f"{count(len(vectors), 'vector')}, {count(vectors.vector_size, 'number')} each"
        lines = [
            f"# {name}",
            "",
            f"{size}, from `{name_of(self.folder)}`.",
            "",
        ]
        write_text(folder / CARD, "\n".join([*lines, "```", f"anaphora neighbours {name} WORD", "```", ""]))


def vectors_config(dim: int) -> RunConfig:
    """Settings that describe vectors of another tool: how they were learned is not known."""
    words = {"kind": "word", "split": "blanks", "fallback": "unk"}
    return RunConfig.read(
        {"run": {"recipe": "skipgram"}, "tokenizer": words, "model": {"kind": "word2vec", "dim": dim}}
    )
