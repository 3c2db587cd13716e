"""The text that Prometheus reads."""

from __future__ import annotations

from extempo.serving.metrics import MOST_SERIES, Counter, Histogram, Metrics, resident_bytes


def test_counters_have_a_line_for_each_set_of_labels():
    counter = Counter("hits_total", "Hits.", ["route"])
    counter.add("/b")
    counter.add("/a", by=2.5)
    counter.add("/b")
    assert counter.lines() == ['hits_total{route="/a"} 2.5', 'hits_total{route="/b"} 2']
    assert counter.value("/b") == 2


def test_labels_are_escaped():
    counter = Counter("hits_total", "Hits.", ["route"])
    counter.add('a"b\\c\nd')
    assert counter.lines() == [r'hits_total{route="a\"b\\c\nd"} 1']


def test_histograms_count_what_is_at_most_so_large():
    histogram = Histogram("seconds", "Time.", [0.1, 1])
    for value in (0.05, 0.1, 0.5, 7):
        histogram.observe(value)
    assert histogram.lines() == [
        'seconds_bucket{le="0.1"} 2',
        'seconds_bucket{le="1"} 3',
        'seconds_bucket{le="+Inf"} 4',
        "seconds_sum 7.65",
        "seconds_count 4",
    ]
    assert histogram.count() == 4


def test_series_are_bounded():
    counter = Counter("hits_total", "Hits.", ["route"])
    for i in range(2 * MOST_SERIES):
        counter.add(str(i))
    assert len(counter.lines()) == MOST_SERIES + 1
    assert counter.value("other") == MOST_SERIES


def test_every_metric_has_help_and_a_type():
    metrics = Metrics()
    metrics.gauge("things", "Things.", lambda: {("a",): 3.0}, ["model"])
    text = metrics.text()
    assert '# HELP things Things.\n# TYPE things gauge\nthings{model="a"} 3\n' in text
    assert text.count("# HELP") == text.count("# TYPE") == 7


def test_memory_is_told_where_the_system_knows_it():
    assert all(value > 1e6 for value in resident_bytes().values())
