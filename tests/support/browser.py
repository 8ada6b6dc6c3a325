"""Chromium at the game table (keyboard moves, waiting, axe-core), and page scripts in Node."""

import base64
import importlib.util
import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import hanabi_rl.people.serve

STATIC = Path(hanabi_rl.people.serve.__file__).parent / "static"
CHROMIUM = shutil.which("chromium")
PLAYWRIGHT = importlib.util.find_spec("playwright")  # includes a Node binary
NODE = shutil.which("node") or (
    PLAYWRIGHT and str(Path(PLAYWRIGHT.origin or "").parent / "driver" / "node")
)
NEEDS_BROWSER = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium"),
    pytest.mark.skipif(PLAYWRIGHT is None, reason="needs Playwright's Python package"),
]
AXE = Path(__file__).parents[1] / "people" / "serve" / "vendor" / "axe.min.js"
SIZES = [(1280, 800), (360, 740)]
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def in_node(script: str, expression: str) -> Any:
    """Evaluate `expression` with `page` = the exports of `script` in `static/`, without a
    document."""
    assert NODE
    source = base64.b64encode((STATIC / script).read_bytes()).decode()
    code = (
        f"const page = await import('data:text/javascript;base64,{source}');"
        f"console.log(JSON.stringify({expression}))"
    )
    run = subprocess.run(
        [NODE, "--input-type=module", "-e", code], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def type_on(page, *strokes):
    """Press keys as sent by another keyboard layout: (key, code), optionally with Shift."""
    session = page.context.new_cdp_session(page)
    for key, code, *shift in strokes:
        event = {"key": key, "code": code, "modifiers": 8 if shift and shift[0] else 0}
        session.send("Input.dispatchKeyEvent", {"type": "keyDown", "text": key, **event})
        session.send("Input.dispatchKeyEvent", {"type": "keyUp", **event})


def press(page, keys):
    for key in keys:
        page.keyboard.press(key)


def until(page, condition):
    """Wait for a condition of the page. Playwright's own wait evaluates strings in the page, which
    its Content-Security-Policy forbids."""
    end = time.monotonic() + 60
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"{condition}: {page.title()}"
        page.wait_for_timeout(10)


def my_turn(page):
    """Wait for the user's turn; False once the game is over."""
    until(page, "/^●|^Game over/.test(document.title)")
    return page.title().startswith("●")


def move_by_keys(page, number):
    """Play or discard on every third move, otherwise give a legal hint; the user sits in seat 0."""
    turn = re.search(r"Turn (\d+)", page.title()).group(1)
    hints = page.locator("button.hint[aria-disabled=false]")
    if number % 3 == 2 or hints.count() == 0:
        full = page.locator(".counters strong").first.inner_text() == "8"
        press(page, ["p" if full else "d", "1"])
    else:
        chosen = hints.nth(number % hints.count()).get_attribute("data-key")
        _, seat, kind, value = chosen.split("-")
        players = page.locator(".hand").count()
        target = [seat] if players > 2 else []
        press(page, ["h", *target, "rygwb"[int(value)] if kind == "color" else value])
    assert page.locator("button.go").get_attribute("aria-disabled") == "false"
    press(page, ["Enter"])
    until(page, f"!document.title.includes('Turn {turn}:')")


def leave(page):
    """Leave the game by its button and confirm."""
    page.locator("#leave").evaluate("leave => leave.click()")
    page.locator("#sure-yes").click()


def scrolls_sideways(page):
    return page.evaluate("document.documentElement.scrollWidth > window.innerWidth")


def violations(page):
    """Violations found by axe-core, one line each."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run().then((result) => result.violations)")
    return [
        f"{problem['id']}: {node['html'][:120]} {node['failureSummary'][:200]}"
        for problem in found
        for node in problem["nodes"]
    ]
