"""The page beside a program that says what a test wants: large graphs, long runs, errors, a program that goes away."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

import extempo as ex
from extempo.inspect import draw, style
from extempo.inspect.drawing import html_writer
from extempo.studio_server.app import PAGE, VIEWER

from ...inspect.drawing.models import Broken, Reader
from .conftest import downloaded, eventually
from .fake_program import FakeProgram, capture, chain_of, hello, state, step

PANELS = ("graph", "pipeline", "training", "change", "compare", "metrics", "learn")
MOST_BYTES = 300_000
CLICK = """async (selector) => {
  document.querySelector(selector).click();
  await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)));
}"""
NAMELESS = """() => [...document.querySelectorAll("button, input, select, dialog, [role=img], [tabindex='0']")]
  .filter((e) => !e.getAttribute("aria-label") && !e.getAttribute("aria-labelledby"))
  .filter((e) => !e.textContent.trim() && !e.labels?.length && !e.title)
  .map((e) => e.outerHTML.slice(0, 120))"""


# ---- what needs no browser


def test_the_page_is_small_and_asks_for_nothing_from_elsewhere():
    files = [VIEWER, *(path for path in PAGE.rglob("*") if path.is_file())]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    for path in files:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|@import|\beval\(|new Function|\.innerHTML", text) or path == VIEWER, path.name
        assert path.suffix != ".html" or not re.search(r"\sstyle=|\son\w+=|<script>|<style", text), path.name


def test_colours_are_those_of_every_report():
    css = (PAGE / "style.css").read_text(encoding="utf-8")
    found = dict(re.findall(r"--([\w-]+): light-dark\((#\w+, #\w+)\)", css))
    light = {**style._LIGHT, **html_writer._COLOURS_LIGHT}
    dark = {**style._DARK, **html_writer._COLOURS_DARK}
    assert {name: found.get(name) for name in light} == {name: f"{light[name]}, {dark[name]}" for name in light}


# ---- in a browser


@pytest.fixture(scope="module")
def program():
    """One for all tests; each says what pages are greeted with."""
    fake = FakeProgram()
    with fake.running() as address:
        fake.address = address
        yield fake


@pytest.fixture
def shown(program, pages):
    """Opens a page that is greeted by these messages: shown(*messages, width=...)."""

    def open_page(*messages, answer=None, **options):
        program.greeting = [hello(), *messages]
        program.answer = answer or (lambda message: [])
        program.received.clear()
        page = pages.open(program.address, **options)
        page.wait_for_selector("#status[data-status=running]")
        return page

    return open_page


def values(node):
    heat = {"rows": 2, "columns": 2, "values": [[0.5, -1.25], [0.0, "nan"]], "row_step": 1, "column_step": 1}
    summary = {"text": "float32 (2, 2), -1.25 .. 0.5", "sampled": False, "heat": heat,
               "histogram": {"edges": [-1.25, 0.0, 0.5], "counts": [1, 2]}}  # fmt: skip
    return {"type": "node", "capture": 1, "node": node, "value": summary, "gradient": None}


def test_a_graph_grows_in_the_order_of_the_run_and_then_gradients_flow(shown):
    page = shown(capture(draw(Reader(), [1, 2, 3]).unfold()))
    page.wait_for_selector(".box")
    n_items = int(page.get_attribute(".player input", "max"))
    page.click("[aria-label='To the beginning']")
    assert page.locator(".box.on").count() == 0
    page.click("[aria-label='One step on']")
    assert page.locator(".box.on").count() == 1
    grown = [page.locator(".box.on").count()]
    for _ in range(3):
        page.click("[aria-label='One step on']")
        grown.append(page.locator(".box.on").count())
    assert grown == sorted(grown)
    assert "4 of" in page.inner_text(".moment")
    assert page.locator(".frame-title:has-text('of 3')").count() == 1  # a loop counts its turns
    assert page.locator(".graded").count() == 0
    page.locator("#panel-graph .player input").fill(str(n_items))
    assert page.locator(".graded.on").count() > 3
    assert page.locator(".edge.grad").count() > 3


def test_loops_unroll_modules_fold_and_shared_weights_are_named(shown):
    page = shown(capture(draw(Reader(), [1, 2, 3]).fold()))
    page.wait_for_selector(".box")
    folded = page.locator(".box").count()
    page.click("text=Unroll loops")
    assert page.locator(".box").count() > folded
    page.select_option("[aria-label^='Shared weights']", "cell.weight_hh")
    assert page.locator(".hit").count() == 3
    page.click("[aria-label='Fold everything']")
    assert page.locator(".box").count() <= folded
    page.fill("[aria-label^='Search']", "score")
    page.keyboard.press("Enter")
    assert "score" in page.inner_text(".details h3")


def test_a_node_shows_its_line_its_value_and_what_differs(shown):
    graph = capture(draw(Reader(), [1, 2, 3]).unfold().unroll())
    number = next(n for n, e in enumerate(graph["graph"]["elements"]) if e.get("op") == "tanh")
    graph["diff"] = {"previous": 0, "text": "1 op added", "changes": [], "status": {str(number): "added"}}
    page = shown(graph, answer=lambda message: [values(message["node"])])
    assert "1 op added" in page.inner_text(".changes summary")
    page.locator(f".box[data-n='{number}']").dispatch_event("click")
    assert page.inner_text(".details h3") == "tanh"
    page.wait_for_selector(".details .heat")
    text = page.inner_text(".details")
    assert "float32 (2, 2), -1.25 .. 0.5" in text
    assert "models.py" in text
    assert "added" in text
    assert "self.cell(self.embed(word), state)" in page.inner_text(".details .here")
    assert "added" in page.get_attribute(f".box[data-n='{number}']", "class")


def test_a_failing_op_is_red_with_its_message_and_the_graph_up_to_it_stays(shown, program):
    page = shown()
    with pytest.raises(ex.errors.ShapeError) as raised:
        Broken()(ex.ones(2, 4))
    message = {"type": "error", "message": f"ShapeError: {raised.value}", "where": "models.py:48",
               "code": [[48, "return self.head(hidden)"]],
               "traceback": "Traceback", "capture": capture(draw(raised.value), backward=False)}  # fmt: skip
    program.send(
        message, {"type": "program", "name": "train.py", "status": "failed", "exit": 1, "message": "raised ShapeError"}
    )
    page.wait_for_selector(".box.error")
    assert "ShapeError" in page.inner_text(".alert")
    assert page.locator(".box.on").count() > 1
    page.wait_for_selector("#status[data-status=failed]")
    assert "raised ShapeError" in page.inner_text("#note")


def test_two_thousand_ops_are_laid_out_and_drawn_in_two_seconds(shown, program):
    page = shown()
    program.send(capture(chain_of(2000)))
    page.wait_for_selector(".box")
    assert page.locator(".box").count() >= 2000
    cdp = page.context.new_cdp_session(page)
    cdp.send("Performance.enable", {"timeDomain": "threadTicks"})  # what the page itself takes, not what runs beside it

    def seconds_for(label):
        def spent():
            return next(
                m["value"] for m in cdp.send("Performance.getMetrics")["metrics"] if m["name"] == "TaskDuration"
            )

        before = spent()
        page.evaluate(CLICK, f"[aria-label='{label}']")
        return spent() - before

    seconds_for("Fold everything")
    took = {label: seconds_for(label) for label in ("Unfold everything", "Zoom in", "Zoom out")}
    print(took)
    assert took["Unfold everything"] < 2
    assert took["Zoom in"] < 0.2
    assert took["Zoom out"] < 0.2


@pytest.mark.slow
def test_ten_thousand_steps_leave_the_memory_of_the_page_bounded(shown, program, pages):
    page = shown()
    page.click("#tab-training")
    graph = capture(draw(Reader(), [1, 2, 3]))
    cdp = page.context.new_cdp_session(page)

    def measured(steps):
        for first in range(steps.start, steps.stop, 20):
            looked = {
                "phases": {"kernels": 0.001},
                "memory": {"total": 8, "peak": 9, "parameters": 8},
                "gradients": {"cell": 0.5},
                "captured": first,
            }
            records = [step(n, **(looked if n % 8 == 0 else {})) for n in range(first, first + 20)]
            program.send(
                {"type": "steps", "run": 1, "skipped": 0, "records": records},
                state(step=first),
                *([{**graph, "number": first}] if first % 400 == 0 else []),
            )
        page.wait_for_selector(f"#facts:has-text('step {steps.stop - 1:,}')")
        cdp.send("HeapProfiler.collectGarbage")
        return cdp.send("Runtime.getHeapUsage")["usedSize"], cdp.send("Memory.getDOMCounters")["nodes"]

    heap, nodes = measured(range(10_000))
    heap_later, nodes_later = measured(range(10_000, 20_000))
    assert heap_later < heap + 8e6
    assert nodes_later < nodes + 3000
    assert "One step in" in page.inner_text(".training-panel")


def test_the_page_joins_again_when_the_program_restarts_and_says_when_it_is_gone(pages):
    fake = FakeProgram([hello()])
    with fake.running() as address:
        page = pages.open(address)
        page.wait_for_selector("#status[data-status=running]")
        fake.send(
            {"type": "program", "name": "train.py", "status": "ended", "exit": 0, "message": "ended with exit status 0"}
        )
        page.wait_for_selector("#status[data-status=ended]")
        assert "exit status 0" in page.inner_text("#note")
    with pages.may_lose_the_program():
        page.wait_for_selector("#status[data-status=gone]")
        assert "The connection is lost" in page.inner_text("#note")
        with fake.running(port=int(address.split(":")[2].split("/")[0])):
            page.wait_for_selector("#status[data-status=running]")
            page.close()


def test_charts_zoom_show_two_runs_and_are_saved_as_svg_png_and_csv(shown, program):
    records = [step(n, loss=2.0 - n / 100) for n in range(100)]
    other = [step(n, loss=3.0 - n / 100) for n in range(50)]
    marks = [{"step": 40, "kind": "insert", "text": "inserted ReLU"}]
    page = shown(
        {"type": "run", "run": {"id": 2, "name": "run 2", "status": "running", "n_steps": 100, "model": "M"}},
        {"type": "history", "run": 1, "every": 1, "records": other, "epochs": [], "marks": []},
        {"type": "history", "run": 2, "every": 1, "records": records, "epochs": [], "marks": marks},
    )
    page.click("#tab-training")
    chart = page.locator(".chart-card:has(figcaption:text-is('Loss'))")
    chart.locator(".mark-text").wait_for()
    page.select_option("#other-run", "1")
    chart.locator("path.dashed").wait_for()
    with downloaded(page) as file:
        chart.locator("text=CSV").click()
    lines = file().decode().splitlines()
    assert lines[0] == "step,run 2: loss,run 1: loss"
    assert lines[1] == "0,2,3"
    assert lines[100] == "99,1.01,"
    with downloaded(page) as file:
        chart.locator("text=SVG").click()
    picture = ElementTree.fromstring(file())
    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "inserted ReLU" in texts
    assert all(element.get("fill") for element in picture.iter("{http://www.w3.org/2000/svg}text"))
    with downloaded(page) as file:
        chart.locator("text=PNG").click()
    png = file()
    assert png.startswith(b"\x89PNG")
    assert len(png) > 5000
    chart.locator("svg.chart").focus()
    page.keyboard.press("Home")
    assert "2" in chart.locator(".tip b").first.inner_text()
    page.keyboard.press("+")
    chart.locator("text=Show all").wait_for()
    page.keyboard.press("0")
    chart.locator("text=Show all").wait_for(state="hidden")
    chart.locator("summary").click()
    chart.locator("tbody tr").first.wait_for()
    assert chart.locator("tbody tr").count() == 100


def test_everything_can_be_done_by_keyboard_and_has_a_name(shown, program):
    page = shown(
        capture(draw(Reader(), [1, 2, 3])),
        answer=lambda message: [{"type": "answer", "ok": False, "error": "insert: no such place"}],
    )
    page.wait_for_selector(".box")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator(".graph-panel svg.graph").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator(".graph-panel .selected").count() == 1
    before = page.locator(".graph-panel .box").count()
    page.keyboard.press("Enter")
    assert page.locator(".graph-panel .box").count() != before
    page.locator("#tab-graph").focus()
    for name in (*PANELS[1:], PANELS[0]):
        page.keyboard.press("ArrowRight")
        assert page.get_attribute(f"#tab-{name}", "aria-selected") == "true"
        assert page.is_visible(f"#panel-{name}")
        assert page.evaluate(NAMELESS) == []
    page.click("#tab-change")
    page.locator("[data-act='insert body']").focus()
    page.keyboard.press("Enter")
    page.select_option("#field-kind", "ReLU")
    assert page.evaluate(NAMELESS) == []
    page.locator("#field-position").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".answers .refused")
    assert "no such place" in page.inner_text(".answers")
    sent = program.received[-1]
    assert {k: sent[k] for k in ("type", "container", "position", "layer", "identity")} == {
        "type": "insert", "container": "body", "position": 1, "layer": {"kind": "ReLU"}, "identity": True,
    }  # fmt: skip


def test_a_lesson_wants_an_answer_then_runs_and_lets_the_run_decide(shown, program):
    steps = [
        {"kind": "text", "text": "A *graph* is a record.", "code": "", "choices": []},
        {"kind": "question", "text": "How many?", "code": "n = 3\n", "choices": [{"text": "Two"}, {"text": "`three`"}]},
    ]
    lesson = {
        "number": 1,
        "name": "graph",
        "title": "What a graph is",
        "part": "The graph",
        "quiz": False,
        "steps": steps,
    }
    program.lessons = {"available": True, "lessons": [lesson]}
    outcome = {"output": [{"kind": "text", "text": "3\n"}], "seconds": 0.1, "error": "", "left_out": ""}
    verdict = {"outcome": outcome, "chosen": 0, "right": 1, "is_right": False, "decided_by": "n == 3",
               "whys": ["It is more.", "It was 3."]}  # fmt: skip
    page = shown(answer=lambda message: [{"type": "learn", "ok": True, "outcome": None, "verdict": verdict}])
    page.click("#tab-learn")
    page.click("text=Run it and see")
    assert program.received == []  # nothing runs before an answer is chosen
    page.check("[name=question-1][value='0']")
    page.click("text=Run it and see")
    page.wait_for_selector(".ran .verdict.bad")
    assert {name: program.received[0][name] for name in ("type", "lesson", "step", "choice")} == {
        "type": "learn", "lesson": 1, "step": 1, "choice": 0,
    }  # fmt: skip
    assert "It was 3." in page.inner_text(".reasons .good")
    assert page.inner_text(".output").strip() == "3"
    assert page.inner_text(".score") == "0 right of 1 answered, 1 in all"


@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_wider_than_the_window(shown, width):
    page = shown(capture(draw(Reader(), [1, 2, 3])), width=width, height=800)
    for name in PANELS:
        page.click(f"#tab-{name}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name


def test_the_colours_follow_the_room_and_the_switch(shown):
    page = shown(scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(18, 22, 28)"
    page.click("#scheme")
    assert page.evaluate(ground) == "rgb(246, 247, 249)"
    page.emulate_media(color_scheme="light")
    page.evaluate("new Promise(requestAnimationFrame)")  # a page looks at the room once a frame
    page.emulate_media(color_scheme="dark")
    eventually(page, f"{ground} === 'rgb(18, 22, 28)'")
