"""Which class was taken for which, as numbers, text and a picture."""

from __future__ import annotations

import xml.dom.minidom

import numpy as np
import pytest

from extempo import metrics as M


def test_the_matrix_as_text_and_as_a_picture():
    m = M.ConfusionMatrix(names=["cat", "dog & <fox>"]).update([0, 0, 1], [0, 1, 1])
    lines = str(m).splitlines()
    assert lines[1].split()[0] == "true"
    assert lines[2].split() == ["cat", "1", "1"]
    picture = m.svg()
    xml.dom.minidom.parseString(picture.svg())
    assert "cat taken for dog &amp; &lt;fox&gt;: 1 (50% of cat)" in picture.svg()
    assert m._repr_html_().startswith("<svg")
    assert str(M.ConfusionMatrix()) == "no samples yet"
    xml.dom.minidom.parseString(M.ConfusionMatrix().svg().svg())


def test_a_large_matrix_is_told_in_a_line():
    m = M.ConfusionMatrix().update(list(range(50)), list(range(50)))
    assert str(m) == "50 classes, 50 samples, 50 of them on the diagonal; see .svg()"
    xml.dom.minidom.parseString(m.svg().svg())


@pytest.mark.parametrize("n_classes", [2, 7, 20])
def test_the_text_of_a_matrix_fits_80_columns_and_has_every_count(n_classes):
    counts = np.arange(n_classes**2).reshape(n_classes, n_classes) + 100
    m = M.ConfusionMatrix(names=[f"a name of a class of more than twenty-four letters {i}" for i in range(n_classes)])
    m.matrix = counts
    lines = str(m).splitlines()
    assert max(map(len, lines)) <= 80
    told = {int(word) for line in lines for word in line.split() if word.isdigit()}
    assert set(counts.reshape(-1).tolist()) <= told


def test_names_in_the_picture_of_a_matrix_do_not_run_into_each_other():
    m = M.ConfusionMatrix(names=["cat", "a rather long name of a class"]).update([0, 1], [0, 1])
    names = xml.dom.minidom.parseString(m.svg().svg()).getElementsByTagName("text")
    columns = [n for n in names if n.getAttribute("text-anchor") == "middle" and n.firstChild.data.endswith("…")]
    assert columns
    assert all(7 * len(n.firstChild.data) <= 104 for n in columns)


@pytest.mark.parametrize("scores", [np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]]), None])
def test_a_threshold_counts_also_where_both_classes_have_a_score(scores):
    p = np.array([0.1, 0.4, 0.8])
    scores = np.stack([np.log(1 - p) + 3, np.log(p) + 3], 1) if scores is None else scores
    assert M.Accuracy().update([0, 1, 1], scores).compute() == pytest.approx(2 / 3)
    assert M.Accuracy(threshold=0.3).update([0, 1, 1], scores).compute() == 1.0
    assert M.Recall("binary", threshold=0.9).update([0, 1, 1], scores).compute() == 0.0


def test_matrices_of_other_sizes_and_names_are_merged():
    a = M.ConfusionMatrix(2, names=["x", "y"]).update([0, 1], [0, 1])
    assert a.merge(M.ConfusionMatrix().update([2], [1])).compute().tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0]]
