"""Accuracy, macro F1, every class, the confusion matrix: by hand, by scikit-learn, on 80 columns."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.evaluation.class_scores import report_of

CORRECT = ["money"] * 8 + ["river"] * 2
ANSWERS = ["money"] * 7 + ["river"] + ["money", "river"]


def test_by_hand() -> None:
    found = report_of(CORRECT, ANSWERS, ["river", "money"])
    assert (found.lines, found.correct, found.accuracy) == (10, 8, 0.8)
    assert (found.majority_label, found.majority_baseline) == ("money", 0.8)
    river, money = found.classes
    assert (river.label, river.precision, river.recall, river.f1, river.support, river.predicted) == (
        ("river", 0.5, 0.5, 0.5, 2, 2)
    )
    assert (money.precision, money.recall, money.support) == (7 / 8, 7 / 8, 8)
    assert found.macro_f1 == pytest.approx((0.5 + 7 / 8) / 2)
    assert found.confusion == [[1, 1], [1, 7]]
    json.dumps(found.document(), allow_nan=False)


def test_who_always_gives_the_commonest_label_is_seen() -> None:
    found = report_of(CORRECT, ["money"] * 10)
    assert found.accuracy == found.majority_baseline == 0.8
    assert found.macro_f1 == pytest.approx(8 / 9 / 2)
    assert found.classes[1].precision == found.classes[1].recall == found.classes[1].f1 == 0


def test_a_label_that_the_model_does_not_know_is_a_class() -> None:
    found = report_of(["a", "z", "z"], ["a", "a", "b"], ["a", "b", "never"])
    assert [one.label for one in found.classes] == ["a", "b", "z"]
    assert found.confusion[2] == [1, 1, 0]
    assert report_of([], []).accuracy == 0


labels = st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from("abcde")), min_size=1, max_size=40)


@given(labels)
def test_as_scikit_learn_has_it(pairs: list[tuple[str, str]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    correct, answers = [one for one, _ in pairs], [one for _, one in pairs]
    found, names = report_of(correct, answers), sorted({*correct, *answers})
    precision, recall, f1, support = metrics.precision_recall_fscore_support(
        correct, answers, labels=names, zero_division=0
    )
    assert [one.label for one in found.classes] == names
    assert [one.precision for one in found.classes] == pytest.approx(list(precision))
    assert [one.recall for one in found.classes] == pytest.approx(list(recall))
    assert [one.f1 for one in found.classes] == pytest.approx(list(f1))
    assert [one.support for one in found.classes] == list(support)
    assert found.macro_f1 == pytest.approx(metrics.f1_score(correct, answers, average="macro", zero_division=0))
    assert found.accuracy == pytest.approx(metrics.accuracy_score(correct, answers))
    assert found.confusion == metrics.confusion_matrix(correct, answers, labels=names).tolist()


@pytest.mark.parametrize("count", [2, 7, 40])
def test_tables_fit_on_80_columns(count: int) -> None:
    names = [f"label-{number}-{'x' * number}" for number in range(count)]
    found = report_of(names * 3, names * 2 + names[::-1])
    lines = str(found).split("\n")
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith(f"accuracy {found.accuracy:.2%} ({found.correct} of {3 * count}), macro F1 ")
    assert lines[0].partition("macro F1 ")[2] == f"{100 * found.macro_f1:.2f}"
    assert f"macro F1 {100 * found.macro_f1:.2f}, " in repr(found)
    assert any("correct label (rows)" in line for line in lines) == (count < 7)
    assert any("predicted as" in line for line in lines) == (count >= 7)
