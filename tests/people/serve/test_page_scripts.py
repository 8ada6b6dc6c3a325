"""The page's scripts for keys and settings, without a browser."""

import json
import re

import pytest
from support.browser import NODE, STATIC, in_node

pytestmark = pytest.mark.skipif(NODE is None, reason="needs node, which Playwright brings")

# (layout, typed key, place, Shift, expected meaning)
STROKES = [
    ("US", "p", "KeyP", False, "p"),
    ("US, Caps Lock", "P", "KeyP", False, "p"),
    ("US", "1", "Digit1", False, "1"),
    ("US", "!", "Digit1", True, None),
    ("US", "?", "Slash", True, "?"),
    ("US", ",", "Comma", False, None),
    ("AZERTY", "&", "Digit1", False, "1"),
    ("AZERTY", "é", "Digit2", False, "2"),
    ("AZERTY", '"', "Digit3", False, "3"),
    ("AZERTY", "'", "Digit4", False, "4"),
    ("AZERTY", "(", "Digit5", False, "5"),
    ("AZERTY", "1", "Digit1", True, "1"),
    ("AZERTY", "w", "KeyZ", False, "w"),
    ("AZERTY", "z", "KeyW", False, "z"),
    ("AZERTY", "?", "KeyM", True, "?"),
    ("QWERTZ", "y", "KeyZ", False, "y"),
    ("QWERTZ", "?", "Minus", True, "?"),
    ("Czech", "+", "Digit1", False, "1"),
    ("Czech", "ě", "Digit2", False, "2"),
    ("Lithuanian", "ą", "Digit1", False, "1"),
    ("Vietnamese", "Dead", "Digit5", False, "5"),
    ("Dvorak", "p", "KeyR", False, "p"),
    ("Dvorak", ",", "KeyW", False, None),
    ("Dvorak", "'", "KeyQ", False, None),
    ("Turkish F", "ç", "KeyB", False, None),
    ("Russian", "з", "KeyP", False, "p"),
    ("Russian", "З", "KeyP", True, "p"),  # noqa: RUF001
    ("Russian", "с", "KeyC", False, "c"),  # noqa: RUF001
    ("Russian", "?", "Digit7", True, "?"),
    ("Greek", "δ", "KeyD", False, "d"),
    ("Greek", ";", "KeyQ", False, None),
    ("Hebrew", "'", "KeyW", False, "w"),
    ("Hebrew", "ר", "KeyR", False, "r"),
    ("Arabic", "لا", "KeyB", False, "b"),
    ("Arabic", "؟", "Slash", True, "?"),
    ("Persian", "۱", "Digit1", False, "1"),  # noqa: RUF001
    ("Thai", "ภ", "Digit4", False, "4"),
    ("Devanagari", "ज", "KeyP", False, "p"),
    ("Korean", "ㅔ", "KeyP", False, "p"),
    ("keypad", "3", "Numpad3", False, "3"),
    ("keypad, Num Lock off", "End", "Numpad1", False, "End"),
    ("keypad", "Enter", "NumpadEnter", False, "Enter"),
    ("any", "Enter", "Enter", False, "Enter"),
    ("any", " ", "Space", False, " "),
    ("any", " ", "Space", True, None),
    ("any", "End", "End", True, None),
    ("a screen's own", "p", "", False, "p"),
]
PLAIN = {
    "defaultPrevented": False,
    "isComposing": False,
    "repeat": False,
    "ctrlKey": False,
    "altKey": False,
    "metaKey": False,
}


def meanings(events):
    """Result of `meant` per event; `AltGraph` is the modifier without a field."""
    made = (
        f"{json.dumps(events)}.map((event) => page.meant("
        "{...event, getModifierState: (name) => event[name] ?? false}))"
    )
    return in_node("keys.js", made)


def test_key_means_typed_character_or_place():
    events = [
        PLAIN | {"key": key, "code": code, "shiftKey": shift} for _, key, code, shift, _ in STROKES
    ]
    found = meanings(events)
    assert [(*stroke[:4], is_) for stroke, is_ in zip(STROKES, found, strict=True)] == STROKES


def test_page_ignores_browser_keys_and_repeats():
    play = PLAIN | {"key": "p", "code": "KeyP", "shiftKey": False}
    others = ["ctrlKey", "altKey", "metaKey", "AltGraph", "isComposing", "repeat"]
    others += ["defaultPrevented"]
    assert meanings([play | {name: True} for name in others]) == [None] * len(others)
    walk = PLAIN | {"key": "ArrowLeft", "code": "ArrowLeft", "shiftKey": False, "repeat": True}
    assert meanings([play, walk]) == ["p", "ArrowLeft"]


def test_settings_default_without_storage():
    """Node has no `localStorage`: naming it raises, as with cookies off."""
    start = {"atOnce": False, "newestLeft": False, "patterns": False, "keys": True, "theme": "auto"}
    assert in_node("settings.js", "[page.load(), page.keep({})]") == [start, False]


@pytest.mark.parametrize(
    ("saved", "changed"),
    [
        ('{"atOnce": true, "theme": "dark"}', {"atOnce": True, "theme": "dark"}),
        ('{"atOnce": "no", "theme": 7, "more": 1}', {}),
        ("null", {}),
        ("[1]", {}),
        ("not JSON", {}),
    ],
)
def test_settings_are_read_field_by_field(saved, changed):
    start = {"atOnce": False, "newestLeft": False, "patterns": False, "keys": True, "theme": "auto"}
    storage = f"globalThis.localStorage = {{getItem: () => {json.dumps(saved)}}}"
    assert in_node("settings.js", f"({storage}, page.load())") == start | changed


def test_css_has_no_animation_or_fixed_text_size():
    """`prefers-reduced-motion` and larger fonts then need no further rules."""
    with_table_css = ("study.css", "kitchen.css")
    for path in STATIC.glob("*.css"):
        text = path.read_text()
        assert not re.search(r"animation|transition|@keyframes|scroll-behavior", text), path
        root = re.search(r"^(?:html|:root) \{[^}]*font: (\S+?)/", text, re.MULTILINE)
        assert path.name in with_table_css or (root and root[1] in ("100%", "1rem")), path
