"""The chart of a benchmark: an SVG that a browser accepts."""

from __future__ import annotations

from xml.etree import ElementTree

from stratalog.cli.startup.chart import ChartBar, bar_chart

SVG = "{http://www.w3.org/2000/svg}"


def test_bars_of_a_group_are_as_long_as_their_values_and_text_is_escaped() -> None:
    groups = [
        ("a < b", [ChartBar("one", 10, "10 s"), ChartBar("two & more", 5, "5 s", colour=1)]),
        ("others", [ChartBar("tiny", 0.1, "0.1 s"), ChartBar("nothing", 0, "-")]),
    ]

    chart = ElementTree.fromstring(bar_chart("Loading <clean>", groups))

    texts = [text.text for text in chart.iter(f"{SVG}text")]
    widths = [int(bar.attrib["width"]) for bar in chart.iter(f"{SVG}rect") if "x" in bar.attrib]
    assert texts == [
        *("Loading <clean>", "a < b", "one", "10 s", "two & more", "5 s"),
        *("others", "tiny", "0.1 s", "nothing", "-"),
    ]
    assert widths[0] == 2 * widths[1] == widths[2]
    assert widths[3] == 1
