"""The page in a real browser (Chromium): no error, hover, zoom, themes, phones, hostile names."""

import functools
import http.server
import re
import shutil
import threading

import pytest

from prism_sim.render.figures import FIGURES
from prism_sim.render.report import render_report
from prism_sim.toolkit import paint

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium"),
]

PLAIN = {name: paint.figure(1, 1) for name in FIGURES}
HOSTILE = '<img src=x onerror="document.title=1"></script><b>job</b>'
VIEWER = """<script>
window.received = [];
addEventListener("message", event => {
  if (event.data === "PING") event.source.postMessage("PONG", "*");
  else window.received.push(event.data.perfetto);
});
</script>"""


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def opened(browser):
    """Open a page; the test fails if the page logs an error or asks for anything else."""
    problems, contexts = [], []

    def open_page(address, **options):
        context = browser.new_context(**({"viewport": {"width": 1200, "height": 900}} | options))
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("requestfailed", lambda request: problems.append(request.url))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def whole(run):
    """A complete run with its page."""
    render_report(run, PLAIN)
    return run


def address_of(run):
    return run.report.resolve().as_uri()


def middle(page, selector):
    page.locator(selector).scroll_into_view_if_needed()
    box = page.locator(selector).bounding_box()
    return box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.3


CHARTS = ("#heat canvas", "#close-up canvas", "#leaves canvas", "#shares canvas")


def ink(page, selector):
    """How many colours a canvas shows."""
    return page.evaluate(
        """selector => {
          const canvas = document.querySelector(selector), context = canvas.getContext("2d");
          const pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
          return new Set(new Uint32Array(pixels.buffer)).size;
        }""",
        selector,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_every_chart_is_drawn_on_any_screen(opened, whole, scheme, width):
    page = opened(address_of(whole), color_scheme=scheme, viewport={"width": width, "height": 800})
    for selector in CHARTS:
        assert ink(page, selector) > 5
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    paper = page.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor")
    red = int(re.search(r"\d+", paper)[0])
    assert (red < 80) == (scheme == "dark")


@pytest.mark.parametrize("selector", CHARTS)
def test_hovering_shows_what_is_there(opened, whole, selector):
    page = opened(address_of(whole))
    assert page.locator("#tip").is_hidden()
    page.mouse.move(*middle(page, selector))
    tip = page.locator("#tip").inner_text()
    assert re.search(r"h\d|leaf\d|10\.0\.0\.", tip)
    assert re.search(r"\d (ms|s|us)|Gbit/s", tip)
    page.mouse.move(2, 2)
    assert page.locator("#tip").is_hidden()


SHORTER = """([from, to]) => {
  const shown = document.querySelector("#close-up canvas").dataset;
  return shown.to - shown.from < (to - from) * 0.9;
}"""


def extent(page):
    canvas = page.locator("#close-up canvas")
    return [float(canvas.get_attribute(f"data-{end}")) for end in ("from", "to")]


def test_the_timeline_zooms_and_moves(opened, whole):
    page = opened(address_of(whole))
    start, end = extent(page)
    page.mouse.move(*middle(page, "#close-up canvas"))
    page.mouse.dblclick(*middle(page, "#close-up canvas"))
    near = extent(page)
    assert near[1] - near[0] < 0.5 * (end - start)
    page.locator("#close-up canvas").focus()
    page.mouse.wheel(0, -200)
    page.wait_for_function(SHORTER, arg=near)
    before = extent(page)
    x, y = middle(page, "#close-up canvas")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 100, y)
    page.mouse.up()
    moved = extent(page)
    assert moved[0] > before[0]
    assert moved[1] - moved[0] == pytest.approx(before[1] - before[0], rel=1e-3)
    page.keyboard.press("0")
    assert extent(page) == [start, end]
    page.locator("[data-zoom=in]").click()
    assert extent(page)[1] - extent(page)[0] == pytest.approx((end - start) / 2)


def test_another_finding_changes_all_charts(opened, whole):
    page = opened(address_of(whole))
    assert page.locator("[data-card='7']").get_attribute("aria-current") == "true"
    page.locator("[data-show='8']").click()
    assert page.locator("[data-card='8']").get_attribute("aria-current") == "true"
    assert "job1" in page.locator("#heat [data-note]").inner_text()
    assert "job1" in page.locator("#close-up [data-note]").inner_text()


def test_html_in_the_name_of_a_job_is_text(opened, run):
    for name in ("jobs", "steps", "spans", "groups", "pairs", "findings"):
        table = run.diagnosis(name)
        run.write_diagnosis(name, table.assign(job=table["job"].replace("job0", HOSTILE)))
    run.score.unlink()
    render_report(run, PLAIN)
    page = opened(address_of(run))
    assert page.title() != "1"
    assert (
        page.locator("img").count() == page.locator("b", has_text=re.compile("^job$")).count() == 0
    )
    assert HOSTILE in page.locator("[data-card='7']").inner_text()
    assert HOSTILE in page.locator("#heat [data-note]").inner_text()


@pytest.fixture
def site(whole):
    """The run folder, served on loopback, with a trace."""
    whole.trace.write_text('{"otherData": {"origin_ns": 1795224999000000000}, "traceEvents": []}')
    quiet = {"log_message": lambda *_: None}
    handler = type("Quiet", (http.server.SimpleHTTPRequestHandler,), quiet)
    serve = functools.partial(handler, directory=str(whole.folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/report.html"
        server.shutdown()


def received(context, click):
    """What the viewer gets; a page of ours stands for it, since tests have no network."""
    answer = {"body": VIEWER, "content_type": "text/html"}
    context.route("https://ui.perfetto.dev/**", lambda route: route.fulfill(**answer))
    with context.expect_page() as opening:
        click()
    viewer = opening.value
    viewer.wait_for_function("window.received.length === 2")
    return viewer.evaluate(
        """window.received.map(
          one => one.buffer ? one.buffer.byteLength : [one.timeStart, one.timeEnd])"""
    )


def test_the_trace_opens_at_the_moment_of_the_finding(opened, site):
    """The finding is from 3 s to 5 s of the run; the trace starts one second before it."""
    page = opened(site)
    size, times = received(page.context, page.locator("[data-trace='7']").click)
    assert size > 50
    assert times == pytest.approx([4.0, 6.0])


def test_a_page_that_may_not_read_files_asks_for_the_trace(opened, whole):
    whole.trace.write_text('{"otherData": {"origin_ns": 1795225000000000000}, "traceEvents": []}')
    page = opened(address_of(whole))
    page.locator("[data-trace='7']").click()
    assert page.locator("dialog#trace").is_visible()
    choose = functools.partial(page.locator("dialog input").set_input_files, str(whole.trace))
    _, times = received(page.context, choose)
    assert times == pytest.approx([3.0, 5.0])


def test_fingers_zoom_on_a_phone(opened, whole):
    phone = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "is_mobile": True}
    page = opened(address_of(whole), **phone)
    start, end = extent(page)
    x, y = middle(page, "#close-up canvas")
    client = page.context.new_cdp_session(page)
    for kind, apart in (("touchStart", 20), ("touchMove", 40), ("touchMove", 80), ("touchEnd", 0)):
        fingers = [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        points = [] if kind == "touchEnd" else fingers
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    page.wait_for_function(SHORTER, arg=[start, end])
    closer = extent(page)
    assert start < closer[0] < closer[1] < end  # fingers were inside, so both ends came nearer
