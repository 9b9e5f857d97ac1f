"""Topics: which senses weigh more, that it fades with the topic's words, and that every way of reading agrees."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anaphora.decoding.decoding_settings import DecodingConfig
from anaphora.decoding.generation import generate
from anaphora.models.backpack.backpack import Backpack
from anaphora.models.backpack.patch import Patch, Remove, Topic
from anaphora.models.backpack.patched import apply, patched
from anaphora.models.backpack.sense_table import SenseTable
from anaphora.models.backpack.topic import FREQUENT, bag_tokens, buckets, leanings, topic_scores
from anaphora.tokenizers.tokenizer import BOS
from anaphora.tokenizers.word_pieces import WordTokens, unsaid_tokens
from sense_models import WORDS, looked_up, small_backpack

MODEL, TOKENIZER = small_backpack()
OWN, LOOKUP = looked_up(MODEL, TOKENIZER)
TOPIC = Topic(name="people", words=("nurse", "doctor", "man"), factors=(3.3, 3.3, 3.0, 1.0))


def texts(rows: int = 3, length: int = 10, seed: int = 1) -> Tensor:
    torch.manual_seed(seed)
    return torch.cat([torch.full((rows, 1), BOS), torch.randint(4, MODEL.vocabulary, (rows, length))], dim=1)


def logs(model: Backpack, ids: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.log_softmax(model.mixed(ids) @ model.vocabulary_matrix.T, dim=-1)


def test_buckets_are_cut_at_the_quantiles() -> None:
    scores = torch.arange(1000.0).flip(0).view(250, 4)
    assert [int((buckets(scores) == one).sum()) for one in range(4)] == [50, 150, 200, 600]
    assert (buckets(scores).flatten()[:50] == 0).all()  # the largest scores are the best


def test_scores_are_the_probability_of_the_bag_by_each_sense_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    bag = torch.zeros(MODEL.vocabulary, dtype=torch.bool)
    bag[[7, 9]] = True
    with torch.no_grad():
        logits = MODEL.sense_vectors(torch.arange(MODEL.vocabulary)) @ MODEL.vocabulary_matrix.T  # (V, k, V)
    expected = logits.softmax(-1)[..., bag].sum(-1).log()
    assert torch.allclose(topic_scores(MODEL, bag), expected, atol=1e-4)
    monkeypatch.setattr("anaphora.models.backpack.topic.SAMPLE", 10)  # from eight words of the twenty-two
    estimated = topic_scores(MODEL, bag)
    assert (estimated - expected).median().abs() < 0.3  # each word of the sample stands for three
    ranks = [one.flatten().argsort().argsort().double() for one in (estimated, expected)]
    assert torch.corrcoef(torch.stack(ranks))[0, 1] > 0.7


def test_the_sum_is_the_one_that_is_written_down() -> None:
    changed = apply(MODEL, [TOPIC], LOOKUP)
    ids = texts(1, 8)
    ids[0, 4] = LOOKUP("man").forms[0]  # the topic comes up in the middle
    bag = {token for word in TOPIC.words for token in LOOKUP(word).forms}
    with torch.no_grad():
        alpha = MODEL.sense_weights(ids)[0]  # (k, T, T)
        senses = MODEL.sense_vectors(ids[0])  # (T, k, d)
        which = torch.zeros(MODEL.vocabulary, dtype=torch.bool)
        which[list(bag)] = True
        delta = torch.tensor(TOPIC.factors)[buckets(topic_scores(MODEL, which))]  # (V, k)
    for i in range(9):
        n = sum(int(token) in bag for token in ids[0, : i + 1])
        o = sum(
            alpha[sense, i, j] * (1 + TOPIC.fade**n * (delta[ids[0, j], sense] - 1)) * senses[j, sense]
            for j in range(i + 1)
            for sense in range(4)
        )
        assert torch.allclose(changed.mixed(ids)[0, i], o, atol=1e-5)


def test_a_bag_is_every_form_of_its_words_and_no_pieces() -> None:
    words = {"sea": WordTokens("sea", (5, 9), ()), "shipyard": WordTokens("shipyard", (), (6, 7))}
    topic = Topic(words=tuple(words))
    assert bag_tokens(topic, words.__getitem__) == [5, 9]
    emphasis = apply(MODEL, [topic], words.__getitem__).emphasis
    assert emphasis is not None and emphasis.bags.nonzero()[:, 1].tolist() == [5, 9]


def test_topics_add_up_each_with_its_own_fade() -> None:
    lasting = Topic(words=("dog", "run"), factors=(4.0, 1.0, 1.0, 1.0), fade=1.0)
    ids = texts()
    ids[:, 3], ids[:, 5] = LOOKUP("man").forms[0], LOOKUP("dog").forms[0]
    with torch.no_grad():
        plain, one, other = (apply(MODEL, some, LOOKUP).mixed(ids) for some in ([], [TOPIC], [lasting]))
        for both in ([TOPIC, lasting], [lasting, TOPIC]):
            assert torch.allclose(apply(MODEL, both, LOOKUP).mixed(ids), one + other - plain, atol=1e-4)


@settings(deadline=None, max_examples=12)
@given(
    st.lists(
        st.builds(
            Topic,
            words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4, unique=True).map(tuple),
            strength=st.floats(0, 3),
            fade=st.sampled_from([0.0, 0.5, 1.0]),
        ),
        min_size=1,
        max_size=2,
    ),
    st.sampled_from(["network", "table", "rewritten"]),
)
def test_every_way_of_reading_agrees(topics: list[Topic], source: str) -> None:
    model = copy.copy(MODEL)
    if source == "table":
        model.attach(SenseTable.build(MODEL, torch.float32))
    operations = [*([Remove(words=("sick", "man"), senses=(1,))] if source == "rewritten" else []), *topics]
    changed = apply(model, operations, LOOKUP)
    ids = texts()
    whole = logs(changed, ids)
    state, said = changed.start(3, 12), []
    for column in ids.unbind(1):
        next_, state = changed.step(column, state)
        said.append(next_)
    assert torch.allclose(torch.stack(said, 1), whole, atol=5e-5)
    state = changed.read(ids[:, :4], torch.tensor([4, 4, 4]), 12)
    guessed, state = changed.extend(ids[:, 4:8], state)  # what a draft guesses
    assert torch.allclose(guessed, whole[:, 4:8], atol=5e-5)
    state = changed.rewind(
        state, torch.tensor([3, 1, 4])
    )  # and what is taken back, with the count of the topic's words
    after, _ = changed.step(ids[torch.arange(3), torch.tensor([5, 7, 4])], state)
    assert torch.allclose(after, whole[torch.arange(3), torch.tensor([5, 7, 4])], atol=5e-5)
    with torch.no_grad():  # what the weights say is what the sum is taken with
        senses = changed.sense_vectors(ids.flatten()).unflatten(0, ids.shape)
        summed = torch.einsum("bkij,bjkd->bid", changed.sense_weights(ids), senses)
        assert torch.allclose(summed, changed.mixed(ids), atol=5e-5)


def test_a_topic_without_strength_changes_nothing_and_one_that_fades_at_once_is_gone_once_it_came_up() -> None:
    ids = texts()
    none = apply(MODEL, [Topic(words=("nurse",), strength=1.0)], LOOKUP)
    assert torch.equal(logs(none, ids), logs(MODEL, ids))
    ids[:, 5] = LOOKUP("nurse").forms[0]
    ids[:, 1:5] = LOOKUP("run").forms[0]
    fades = apply(MODEL, [Topic(words=("nurse",), fade=0.0)], LOOKUP)
    assert not torch.allclose(logs(fades, ids)[:, :5], logs(MODEL, ids)[:, :5], atol=1e-3)
    assert torch.allclose(logs(fades, ids)[:, 5:], logs(MODEL, ids)[:, 5:], atol=1e-5)


@pytest.mark.parametrize("how", [{"sample": True, "seed": 4}, {"beam": 4}])
def test_what_is_generated_depends_on_no_batch(how: dict[str, object]) -> None:
    changed = patched(MODEL, TOKENIZER, [Patch(OWN, (TOPIC,))])
    prompts = [TOKENIZER.encode(text) for text in ("the nurse", "a sick dog said", "that", "the man said that")]
    config = DecodingConfig(**how)  # type: ignore[arg-type]
    together = generate(changed, prompts, config, tokens=8, samples=2)
    for place, prompt in enumerate(prompts):
        if "beam" in how:
            alone = generate(changed, [prompt], config, tokens=8, samples=2)[0]
            assert [one.tokens for one in alone] == [one.tokens for one in together[place]]
        for said in together[place]:
            row = [*prompt, *said.tokens]
            scores = changed.score(torch.tensor([row]), torch.tensor([len(row)]))[0, len(prompt) :]
            assert scores.tolist() == pytest.approx(said.token_log_probabilities[: len(said.tokens)], abs=1e-4)


def test_a_topic_raises_its_words() -> None:
    bag = [token for word in TOPIC.words for token in LOOKUP(word).forms]
    ids = texts(40, 6)
    louder = {"strength": 2.0}, {"factors": (3.3, 1.0, 1.0, 1.0)}
    several = [Topic(words=TOPIC.words, fade=1.0, **how) for how in ({"strength": 0.0}, *louder)]  # type: ignore[arg-type]
    models = [MODEL, *(apply(MODEL, [topic], LOOKUP) for topic in several)]
    plain, away, strong, buckets_alone = (logs(model, ids)[..., bag].exp().sum(-1).mean() for model in models)
    assert strong > 1.5 * plain and buckets_alone > 1.5 * plain and away < plain


@pytest.mark.parametrize("unsaid", [(), (0, 1, 12)])
def test_leanings_are_deviations_of_what_senses_say_for_the_bag(unsaid: tuple[int, ...]) -> None:
    bag = torch.zeros(MODEL.vocabulary, dtype=torch.bool)
    bag[[7, 9]] = True
    z = leanings(MODEL, bag, unsaid)  # (V, k)
    used = 1 / (torch.arange(MODEL.vocabulary) + FREQUENT)
    used[list(unsaid)] = 0
    with torch.no_grad():
        table = MODEL.vocabulary_matrix
        others = (used[~bag, None] * table[~bag]).sum(0) / used[~bag].sum()
        lean = MODEL.sense_vectors(torch.arange(MODEL.vocabulary)) @ (table[bag].mean(0) - others)
    assert torch.corrcoef(torch.stack([z.flatten(), lean.flatten()]))[0, 1] > 0.99999
    share = used[:, None] / used.sum() / z.shape[1]
    assert float((share * z).sum()) == pytest.approx(0, abs=1e-5)
    assert float((share * z**2).sum()) == pytest.approx(1, rel=1e-4)


def test_topics_together_take_no_more_than_all_of_a_weight() -> None:
    against = [Topic(words=(word,), strength=50.0, fade=1.0) for word in ("nurse", "dog", "run")]
    for number in (1, 2, 3):
        changed = apply(MODEL, against[:number], LOOKUP)
        assert changed.sense_weights(texts()).min() >= -1e-6
    alone = apply(MODEL, against[:1], LOOKUP).emphasis
    assert alone is not None and alone.added.min() == -1
    ids = texts()
    with torch.no_grad():
        one, other = (apply(MODEL, some, LOOKUP).mixed(ids) for some in (against, against[::-1]))
    assert torch.allclose(one, other, atol=1e-3)


def test_a_strength_is_how_much_a_deviation_adds() -> None:
    bag = torch.zeros(MODEL.vocabulary, dtype=torch.bool)
    bag[list(LOOKUP("nurse").forms)] = True
    emphasis = apply(MODEL, [Topic(words=("nurse",), strength=9.0)], LOOKUP).emphasis
    assert emphasis is not None and emphasis.added.max() > 4
    assert torch.equal(emphasis.added[0], (8 * leanings(MODEL, bag)).clamp(min=-1))


def test_a_topic_that_does_nothing_leaves_the_others_as_they_are() -> None:
    topic = Topic(words=("nurse",), strength=1.3)
    for idle in (Topic(words=("dog",), strength=1.0), Topic(words=("dog",), factors=(1.0, 1.0, 1.0, 1.0))):
        for both in ([topic, idle], [idle, topic]):
            assert torch.allclose(
                logs(apply(MODEL, both, LOOKUP), texts()), logs(apply(MODEL, [topic], LOOKUP), texts())
            )


def test_tokens_that_no_text_has_do_not_count_for_a_patched_model() -> None:
    topic = Topic(words=("nurse", "doctor"), strength=2.0)
    emphasis = patched(MODEL, TOKENIZER, [Patch(OWN, (topic,))]).emphasis
    unsaid = unsaid_tokens(TOKENIZER)
    assert emphasis is not None and {0, 1} <= {*unsaid}
    bag = emphasis.bags[0].bool()
    assert torch.equal(emphasis.added[0], leanings(MODEL, bag, unsaid).clamp(min=-1))
    assert not torch.allclose(emphasis.added[0], leanings(MODEL, bag).clamp(min=-1), atol=1e-3)
