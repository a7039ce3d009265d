"""The laboratory's pages in a real browser: the report as a file, and `lab view`. One browser, prepared runs, no measurement.

Arguments: the program `manifold`, and an empty folder. Ends with an exception at the first thing that is not as it should be.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

import prepared

WITHIN_MS = 10_000
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


class Browser:
    """Opens pages, and holds against each what it logged or asked of others."""

    def __init__(self, playwright):
        # Debian's own; as root it has no sandbox.
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        self.browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=options)
        self.complaints = []

    def page(self, url, viewport=DESK, **options):
        context = self.browser.new_context(viewport=viewport, **options)
        context.set_default_timeout(WITHIN_MS)
        page = context.new_page()
        page.on("console", lambda said: self.complaints.append(f"{url}: {said.type}: {said.text}"))
        page.on("pageerror", lambda error: self.complaints.append(f"{url}: {error}"))
        own = url.split("/")[:3]
        page.on("request", lambda asked: self.asked(url, own, asked))
        page.goto(url)
        return page

    def asked(self, url, own, asked):
        is_own = asked.url.split("/")[:3] == own and (asked.url.startswith("http") or asked.url == url)
        if not is_own and not asked.url.startswith("data:"):
            self.complaints.append(f"{url} asked for {asked.url}")

    def done_with(self, page):
        page.context.close()
        assert not self.complaints, "\n".join(self.complaints)


def fits(page):
    """Nothing is wider than the screen."""
    width, inside = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width <= inside, f"{page.url} is {width} pixels wide on a screen of {inside}"


def texts_do_not_overlap(page):
    """Of each plot: numbers, names and labels."""
    overlapping = page.evaluate("""() => [...document.querySelectorAll("svg.plot")].flatMap(svg => {
        const texts = [...svg.querySelectorAll("text")].filter(text => text.getClientRects().length && text.textContent)
            .map(text => [text.textContent, text.getBoundingClientRect()]);
        // Boxes have some air above and below the letters.
        const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top + 3 < b.bottom - 3 && b.top + 3 < a.bottom - 3;
        return texts.flatMap(([one, a], i) => texts.slice(i + 1).filter(([, b]) => meet(a, b)).map(([other]) => one + " / " + other));
    })""")
    assert not overlapping, f"{page.url}: {overlapping}"


def report(browser, url):
    page = browser.page(url)
    fits(page)
    texts_do_not_overlap(page)
    tip, figure = page.locator(".tip"), page.locator("figure.zooms").first
    expect(tip).to_be_hidden()
    hover(page, tip, figure)
    keyboard(page, tip, figure)
    zoom(page, figure)
    bars = page.locator("figure:not(.zooms) .point").nth(1)
    bars.hover()
    expect(tip).to_contain_text("manifold event")
    expect(tip).to_contain_text("interval 6.0 µs to 6.2 µs")
    page.emulate_media(media="print")
    expect(page.locator(".tools").first).to_be_hidden()
    assert len(page.pdf()) > 20_000
    browser.done_with(page)


def hover(page, tip, figure):
    point = figure.locator(".s.m-percore .point .dot").nth(1)
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2 + 2, box["y"] + box["height"] / 2 - 2)
    for part in ["manifold percore", "100 connections: ", "interval "]:
        expect(tip).to_contain_text(part)
    inside = page.evaluate("(() => { const r = document.querySelector('.tip').getBoundingClientRect(); "
                           "return r.left >= 0 && r.right <= innerWidth && r.top >= 0 && r.bottom <= innerHeight; })()")
    assert inside, "the value is on the screen"
    page.mouse.move(5, 5)
    expect(tip).to_be_hidden()


def keyboard(page, tip, figure):
    figure.locator(".point[tabindex='0']").focus()
    expect(tip).to_contain_text("10 connections")
    name = tip.locator("b").inner_text()
    page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text("100 connections")
    expect(tip.locator("b")).to_have_text(name)
    page.keyboard.press("ArrowDown")
    expect(tip.locator("b")).not_to_have_text(name)
    label = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert re.match(r".+, 100 connections: .+, interval .+ to ", label), label
    page.keyboard.press("+")
    expect(figure.get_by_role("button", name="Show all")).to_be_enabled()
    page.keyboard.press("0")
    expect(figure.get_by_role("button", name="Show all")).to_be_disabled()
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()


def zoom(page, figure):
    ticks = lambda: figure.locator(".y-axis text").all_inner_texts()
    names = lambda: [name for name in figure.locator(".names .s").all() if name.is_visible()]
    whole, everyone = ticks(), len(names())
    area, out = figure.locator(".area").bounding_box(), figure.get_by_role("button", name="Show all")
    middle = area["y"] + area["height"] / 2
    drag(page, (area["x"] + area["width"] * 0.3, middle), (area["x"] + area["width"] * 0.7, middle))
    expect(out).to_be_enabled()
    assert ticks() != whole, "the vertical axis fits what is left"
    assert figure.locator(".x-axis > g:not(.hidden)").count() == 1, "of three numbers the middle one is left"
    texts_do_not_overlap(page)
    figure.locator("svg.plot").dblclick(position={"x": 200, "y": 100})
    expect(out).to_be_disabled()
    assert ticks() == whole and len(names()) == everyone, "all is as it was"
    drag(page, (area["x"] - 15, area["y"] + 40), (area["x"] - 15, area["y"] + area["height"] * 0.6))
    expect(out).to_be_enabled()
    out.click()
    for label, enabled in [("Zoom in", True), ("Zoom out", False)]:
        figure.get_by_role("button", name=label).click()
        expect(out).to_be_enabled(enabled=enabled)
    assert ticks() == whole


def drag(page, start, end):
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move((start[0] + end[0]) / 2, end[1])
    page.mouse.move(*end)
    page.mouse.up()


def looks(browser, url):
    """In the dark, on a phone, without motion; and without script."""
    page = browser.page(url, viewport=PHONE, has_touch=True, reduced_motion="reduce", color_scheme="dark")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", background)[:3])) < 60, background
    fits(page)
    texts_do_not_overlap(page)
    page.locator("figure.zooms .point .touch").first.tap()
    expect(page.locator(".tip")).to_be_visible()
    moving = page.evaluate("[...document.querySelectorAll('.area .s')].some(s => getComputedStyle(s).transitionDuration !== '0s')")
    assert not moving
    browser.done_with(page)
    page = browser.page(url, java_script_enabled=False)
    assert page.locator("svg.plot").count() == 12 and page.locator("table").count() >= 3
    assert page.locator(".tools, .tip").count() == 0
    browser.done_with(page)


def view(browser, url, store, running):
    page = browser.page(url)
    fits(page)
    expect(page.locator(".runs li")).to_have_count(3)
    expect(page.locator(".runs")).to_contain_text("30 of 72 cells: round 2 of 3, <i>nginx</i>")
    page.get_by_label("State").select_option("complete")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator(".runs li")).to_have_count(2)
    page.get_by_label("Words").fill("second & last")
    page.keyboard.press("Enter")
    expect(page.locator(".runs li")).to_have_count(1)
    page.get_by_role("link", name="Run 2").click()
    expect(page.locator("h1")).to_contain_text("percore")
    page.locator("figure.zooms .point .touch").first.hover()
    expect(page.locator(".tip")).to_contain_text("interval")
    page.get_by_role("link", name="Compare it with another").click()
    page.get_by_label("second").nth(2).check()
    page.get_by_role("button", name="Compare first and second").click()
    expect(page.locator("h1")).to_have_text("Runs 2 and 1 beside each other")
    row = page.locator(".differences tr").filter(has_text="manifold percore").filter(has_text="CPU µs per request").first
    expect(row).to_contain_text("0.50")
    expect(row).to_contain_text("less")
    assert page.locator("svg.plot").count() == 24, "the plots of both"
    with page.expect_download() as download:
        page.goto(url + "run/1/files/")
        page.get_by_role("link", name="figures.csv").click()
    assert Path(download.value.path()).read_text().startswith("plot,series,x,")
    browser.done_with(page)
    everything = ["run/1", f"run/{running}", "compare?a=1&b=2", "run/1/files/"]
    for options, paths in [({"viewport": PHONE, "color_scheme": "dark"}, everything), ({"java_script_enabled": False}, everything[1:])]:
        page = browser.page(url, **options)
        for path in paths:
            page.goto(url + path)
            expect(page.locator("h1")).to_be_visible()
            if options.get("java_script_enabled", True):
                fits(page)
        browser.done_with(page)
    follow(browser, url, store, running)


def follow(browser, url, store, running):
    """The page of a run that is measured follows it, and becomes the report."""
    page = browser.page(f"{url}run/{running}")
    expect(page.locator("h1")).to_have_text("It is being measured")
    expect(page.locator("table")).to_contain_text("manifold prefork")
    store.tell(running, 41, 72, "round 3 of 3, nginx")
    expect(page.locator(".now")).to_contain_text("41 of 72 cells: round 3 of 3")
    store.end(running, prepared.results(), "All of it is measured.")
    expect(page.locator("svg.plot")).to_have_count(12)
    browser.done_with(page)


def main(manifold, folder):
    (folder / "report").mkdir()
    (folder / "report/results.json").write_text(json.dumps(prepared.results()))
    subprocess.run([manifold, "lab", "report", folder / "report"], check=True)
    file = folder / "lab.sqlite"
    store = prepared.Store(file)
    for scale, command in [(1, "manifold lab run --seed 7"), (2, "manifold lab run --seed 8 # second & last")]:
        run = store.begin("models", command)
        store.end(run, prepared.results(scale), f"Run {run}: manifold percore needs the least CPU.")
    running = store.begin("models", "manifold lab run <script>alert(1)</script>")
    store.tell(running, 30, 72, "round 2 of 3, <i>nginx</i>")
    store.add(running, prepared.results()["cells"][:60])
    command = [manifold, "lab", "view", "--no-open", "--port", "0"]
    environment = {**os.environ, "MANIFOLD_LAB_STORE": str(file)}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        url = re.search(r"http://[\d.:]+/", server.stdout.readline())[0]
        with sync_playwright() as playwright:
            browser = Browser(playwright)
            report(browser, (folder / "report/report.html").as_uri())
            looks(browser, (folder / "report/report.html").as_uri())
            view(browser, url, store, running)
            browser.browser.close()
        server.send_signal(signal.SIGINT)
        assert server.wait(10) == 0, "Ctrl-C ends it"
    finally:
        server.kill()


main(sys.argv[1], Path(sys.argv[2]))
