"""Tables as text, in a pipe and on a terminal, and as CSV."""

from hanabi_rl.evaluation.measure.intervals import Interval
from hanabi_rl.evaluation.reporting.tables import (
    Column,
    csv_text,
    format_value,
    interval_columns,
    table,
    to_text,
)

ROWS = [
    {"agent": "runs/[bold]a", "mean": 1.234, "mean_ci95": [1.0, 2.5], "best": None},
    {"agent": ":smile:" * 60, "mean": None, "mean_ci95": None, "best": None},
]
COLUMNS = (
    Column("agent"),
    *interval_columns("mean", ".2f"),
    Column("best", spec=".0%", optional=True),
)


def test_piped_tables_are_plain_and_unwrapped():
    """No colours, boxes, markup or line breaks: `grep` and `cut` work."""
    head, first, second = to_text("title", table(ROWS, COLUMNS)).splitlines()[1:]
    assert head.split() == ["agent", "mean", "95%", "interval"]  # the best response is unknown
    assert first.split() == ["runs/[bold]a", "1.23", "[1.00,", "2.50]"]
    assert second.split() == [":smile:" * 60, "none"] and second == second.rstrip()
    assert first.index("1.23") + 4 == second.index("none") + 4 == head.index("mean") + 4


def test_heads_are_bold_only_on_terminals():
    assert "\x1b[1m" in to_text(table(ROWS, COLUMNS), styled=True)
    assert "\x1b" not in to_text(table(ROWS, COLUMNS))


def test_values_as_text():
    values = (0.5, Interval(0.5, 0.25, 0.75, 0.1), [0.25, 0.75], "text", None, float("nan"))
    assert [format_value(value, ".2f") for value in values] == [
        "0.50", "0.50 [0.25, 0.75]", "[0.25, 0.75]", "text", "none", "none",
    ]  # fmt: skip


def test_csv():
    rows = [{"a": 1, "b": None}, {"a": "x,y", "b": 2.5}]
    assert csv_text(rows) == 'a,b\n1,\n"x,y",2.5\n'
