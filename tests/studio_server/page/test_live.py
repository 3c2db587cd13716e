"""The page beside a real program: panels show the numbers that it computed, and clicks change it while it trains."""

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from .conftest import downloaded, eventually

pytestmark = pytest.mark.slow  # a program that trains, in a browser: half a minute

PROGRAM = Path(__file__).with_name("training_program.py")
PANELS = ("graph", "pipeline", "training", "change", "compare", "metrics", "learn")
LOOKS = ((1280, "light"), (1280, "dark"), (400, "dark"), (400, "light"))
IN_THE_GUIDE = {
    "graph-1280-light",
    "graph-400-dark",
    "pipeline-1280-light",
    "training-1280-dark",
    "change-1280-light",
    "compare-1280-light",
    "metrics-1280-dark",
}
CELLS = """[...document.querySelectorAll(".confusion td")].filter((cell) => cell.firstChild)
  .map((cell) => cell.firstChild.textContent).join()"""
POLICY = "default-src 'self'"


class Running:
    """`extempo studio training_program.py FOLDER` in a process of its own."""

    def __init__(self, folder):
        self.folder = folder
        command = [
            sys.executable,
            "-m",
            "extempo",
            "studio",
            "--no-browser",
            "--wait",
            "0.1",
            str(PROGRAM),
            str(folder),
        ]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
        self.said = []
        self.address = re.search(r"http://\S+", self._first_line())[0]
        threading.Thread(target=self._listen, daemon=True).start()

    def _first_line(self):
        for line in self.process.stderr:
            self.said.append(line)
            if "http://" in line:
                return line
        raise AssertionError("".join(self.said))

    def _listen(self):
        for line in self.process.stderr:
            self.said.append(line)

    def steps(self):
        """The losses that were written down, by step."""
        lines = (self.folder / "steps.jsonl").read_text().splitlines()
        return {record["step"]: record for record in map(json.loads, lines[:-1])}

    def tell(self, word):
        (self.folder / word).touch()

    def end(self):
        self.process.kill()
        self.process.wait(30)
        self.process.stderr.close()


@pytest.fixture(scope="module")
def running(browser, tmp_path_factory):  # the browser first: without one there is nothing to run
    found = Running(tmp_path_factory.mktemp("program"))
    yield found
    found.end()


@pytest.fixture
def page(running, pages):
    opened = pages.open(running.address)
    opened.wait_for_selector("#status[data-status=running], #status[data-status=paused]")
    if opened.get_attribute("#status", "data-status") == "paused":  # by a test that failed
        opened.click("#tab-change")
        opened.click(".change-panel button:text-is('Go on')")
        opened.wait_for_selector("#status[data-status=running]")
        opened.click("#tab-graph")
    return opened


def line_of(words):
    return next(n for n, line in enumerate(PROGRAM.read_text().splitlines(), 1) if words in line)


def test_every_answer_has_the_policy_and_the_page_keeps_to_it(running, pages):
    page = pages.open(running.address)
    policy = pages.answer.headers["content-security-policy"]
    assert policy.startswith(POLICY)
    assert "unsafe" not in policy
    assert "data:" not in policy
    assert page.evaluate("document.cookie") == ""
    page.wait_for_selector(
        "#status[data-status=running]"
    )  # `pages` asserts that nothing was violated and nothing complained


def test_a_stranger_is_not_let_in(running, pages):
    with pages.may_lose_the_program():
        page = pages.open(re.sub("token=.*", "token=guessed", running.address))
        page.wait_for_selector("#status[data-status=refused]")
        assert "token" in page.inner_text("#note")
        page.close()


def test_the_graph_shows_the_iteration_its_values_and_the_other_length(page):
    page.click("#tab-change")
    page.click(".change-panel button:text-is('Pause')")
    page.wait_for_selector("#status[data-status=paused]")
    for n_done in (2, 3):  # samples of length 3 and 7 in turn; each of these steps is captured
        page.click(".change-panel button:text-is('One step')")
        eventually(page, f"document.querySelectorAll('.answers .done').length === {n_done}")
    page.click("#tab-graph")
    panel = page.locator("#panel-graph")
    page.click("#panel-graph [aria-label='To the end']")  # and no longer live
    eventually(page, "document.querySelectorAll('#panel-graph .row select option').length > 1")
    sizes, differences = [], []
    for number in panel.locator(".row select option").evaluate_all("found => found.map((option) => option.value)")[:2]:
        panel.locator(".row select").first.select_option(number)
        sizes.append(
            tuple(map(int, re.search(r"(\d+) ran, (\d+) gradients", panel.locator(".moment").inner_text()).groups()))
        )
        differences.append(panel.locator(".changes summary").inner_text())
    assert abs(sizes[0][0] - sizes[1][0]) == 4 * 17  # the embedding and the 16 ops of the cell, for four words more
    assert sizes[0][1] != sizes[1][1]
    assert re.search("68 ops (added|removed)", differences[0])
    panel.locator("[aria-label='Unfold everything']").click()
    panel.locator(".box.op:has-text('tanh')").first.dispatch_event("click")
    panel.locator(".details .histogram").nth(1).wait_for()  # of the value, and of its gradient
    text = panel.locator(".details").inner_text()
    assert "float32 (8,)" in text
    assert f"training_program.py:{line_of('self.embed(word)')}" in text
    assert "state = self.cell(self.embed(word), state)" in panel.locator(".details .here").inner_text()
    page.click("#tab-change")
    page.click(".change-panel button:text-is('Go on')")
    page.wait_for_selector("#status[data-status=running]")


def test_curves_are_the_losses_that_the_program_computed(page, running):
    page.click("#tab-training")
    chart = page.locator(".training-panel .chart-card:has(figcaption:text-is('Loss'))")
    chart.locator("path.line").first.wait_for()
    with downloaded(page) as file:
        chart.locator("text=CSV").click()
    header, *lines = file().decode().splitlines()
    assert header == "step,loss"
    computed = running.steps()
    shown = {int(step): float(loss) for step, loss in (line.split(",") for line in lines)}
    known = shown.keys() & computed.keys()
    assert len(known) > 5
    assert {step: shown[step] for step in known} == pytest.approx(
        {step: computed[step]["loss"] for step in known}, rel=1e-5
    )
    page.locator(".epochs tbody tr.figures").first.wait_for()
    epoch = int(page.inner_text(".epochs tbody tr.figures th >> nth=0"))
    said = json.loads((running.folder / f"epoch_{epoch}.json").read_text())
    assert f"{100 * said['right']:.1f}%" in page.inner_text(".epochs tbody tr.figures >> nth=0")
    assert page.inner_text(".epochs .remark >> nth=0").strip()


def test_the_pipeline_shows_the_batch_and_predicts_a_sequence_of_any_length(page):
    page.click("#tab-pipeline")
    page.locator(".stage-card").nth(4).wait_for()
    titles = page.locator(".stage-card h3").all_inner_texts()
    assert any("Embedding" in title for title in titles)
    assert any("GRUCell" in title for title in titles)
    for sequence in ("4", "1 2 3 4 5 6 7 8 9 10 9 8 7"):
        page.fill("#sequence", sequence)
        page.click("text=Predict")
        page.locator(".answer .bars").wait_for()
        n_words = len(sequence.split())
        assert page.locator(".answer .verdict").inner_text().startswith("class")
        words = "document.querySelector('.prediction-graph .graph-view').textContent"
        title = f"x {n_words}" if n_words > 1 else "GRUCell"
        eventually(page, f"{words}.includes('{title}')")
    page.fill("#sequence", "four")
    page.click("text=Predict")
    page.locator(".answer .bad").wait_for()


def test_metrics_follow_the_threshold(page, running):
    page.click("#tab-metrics")
    page.locator(".confusion").wait_for()
    page.click("#tab-change")
    page.click(".change-panel button:text-is('Pause')")
    page.wait_for_selector("#status[data-status=paused]")
    page.click("#tab-metrics")
    n_epochs = len(list(running.folder.glob("epoch_*.json")))
    said = json.loads((running.folder / f"epoch_{n_epochs}.json").read_text())
    for threshold in (0.05, 0.95):
        page.locator("#threshold").fill(str(threshold))
        hits = [(truth, score >= threshold) for truth, score in zip(said["truth"], said["positive"], strict=True)]
        wanted = [[sum((t, h) == (row, column) for t, h in hits) for column in (False, True)] for row in (0, 1)]
        eventually(page, f"{CELLS} === '{','.join(str(n) for row in wanted for n in row)}'")
    page.click("#tab-change")
    page.click(".change-panel button:text-is('Go on')")
    page.wait_for_selector("#status[data-status=running]")


def test_a_layer_is_inserted_by_clicks_while_training_goes_on(page, running, pages):
    second = pages.open(running.address)  # another browser sees it, too, and may be closed at any time
    second.click("#tab-change")
    page.click("#tab-change")
    before = max(running.steps())
    page.click("[data-act='insert body']")
    page.select_option("#field-kind", "Tanh")
    page.click("dialog button.primary")
    page.wait_for_selector(".answers .done:has-text('inserted Tanh')")
    page.wait_for_selector("tr[data-path='body.1']:has-text('Tanh')")
    page.wait_for_selector(".mark-text:has-text('inserted Tanh')")
    second.wait_for_selector("tr[data-path='body.1']:has-text('Tanh')")
    second.close()
    page.fill("#rate", "0.002")
    page.keyboard.press("Enter")
    page.wait_for_selector("#facts:has-text('lr 0.002')")
    page.click("[data-act='insert body']")
    page.select_option("#field-kind", "Linear")
    page.fill("#field-out_features", "5")
    page.uncheck("[name=identity]")
    page.click("dialog button.primary")
    page.wait_for_selector(".answers .refused, .answers .done:has-text('Linear')")
    eventually(page, f"Number(document.querySelector('#facts b').textContent.replaceAll(',', '')) > {before} + 3")
    assert list(running.steps().values())[-1]["lr"] == 0.002


def test_it_is_measured_whether_it_pays(page):
    page.click("#tab-compare")
    page.click("text=Measure now")
    page.locator(".compare-panel .verdict").first.wait_for(timeout=180_000)
    assert page.locator(".compare-panel .bars").count() == 2
    assert "eager" in page.inner_text(".compare-panel .result")


def test_every_panel_fits_both_widths_in_both_colours_and_is_pictured(page, tmp_path):
    """`STUDIO_PICTURES=docs/pictures/studio pytest tests/studio_server/page/test_live.py` makes those of the guide."""
    folder = Path(os.environ.get("STUDIO_PICTURES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    prepare(page)
    for panel in PANELS:
        page.click(f"#tab-{panel}")
        page.wait_for_timeout(400)  # for eyes only: nothing below depends on it
        for width, scheme in LOOKS:
            page.set_viewport_size({"width": width, "height": 860 if width > 600 else 900})
            page.emulate_media(color_scheme=scheme)
            eventually(page, f"document.documentElement.dataset.scheme === '{scheme}'")
            page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, panel
            name = f"{panel}-{width}-{scheme}"
            if folder == tmp_path or name in IN_THE_GUIDE:
                page.screenshot(path=folder / f"{name}.png")
    assert {path.stem for path in folder.glob("*.png")} >= IN_THE_GUIDE
    if folder != tmp_path:
        shrink(folder)


def shrink(folder):
    """With 200 colours, a picture takes a third of the bytes, and no eye sees it."""
    images = pytest.importorskip("PIL.Image", reason="smaller pictures need Pillow, which Matplotlib brings")
    for path in folder.glob("*.png"):
        with images.open(path) as picture:
            reduced = picture.convert("RGB").quantize(200)
        reduced.save(path, optimize=True)


def prepare(page):
    """What a reader of the guide should see: a chosen node, a prediction, a comparison, and nothing that moves."""
    page.locator("#panel-graph .box").first.wait_for()
    page.click("#tab-compare")
    page.click("text=Measure now")
    page.locator(".compare-panel .verdict").first.wait_for()
    page.click("#tab-change")
    page.click(".change-panel button:text-is('Pause')")
    page.wait_for_selector("#status[data-status=paused]")
    page.click(".change-panel button:text-is('One step')")
    page.wait_for_selector(".answers .done:has-text('One step')")
    page.click("#tab-pipeline")
    page.fill("#sequence", "3 1 4 1 5")
    page.click("text=Predict")
    page.locator(".answer .bars").wait_for()
    page.click("#tab-metrics")
    page.locator("#threshold").fill("0.8")
    page.click("#tab-graph")
    page.click("#panel-graph [aria-label='Unfold everything']")
    page.locator("#panel-graph .box.op:has-text('tanh')").first.dispatch_event("click")
    page.click("#panel-graph [aria-label='See all of it']")
    page.locator(".details .histogram").first.wait_for()


def test_an_error_stays_with_the_failing_op_in_red_and_then_the_page_says_that_it_ended(page, running):
    running.tell("fail")
    page.wait_for_selector("#status[data-status=failed]")
    page.wait_for_selector(".box.error.on")
    assert "expected input (..., in_features=8)" in page.inner_text(".alert")
    assert "raised ShapeError" in page.inner_text("#note")
