"""A bar chart as SVG, drawn by hand: bars in groups, their values beside them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

_ROW, _GAP, _LEFT, _WIDTH, _TOP = 18, 10, 250, 520, 40
_COLOURS = ("#4878a8", "#8fb3d4", "#c9dced", "#e0a458")


class ChartBar(NamedTuple):
    """One bar: its label, its value, the text of that value, and its colour."""

    label: str
    value: float
    text: str
    colour: int = 0


def bar_chart(title: str, groups: Sequence[tuple[str, Sequence[ChartBar]]]) -> str:
    """The document. Each group of bars has its own scale: groups may differ by orders of magnitude."""
    parts, y = [], _TOP
    for name, bars in groups:
        parts.append(f'<text x="8" y="{y + 12}" font-weight="bold">{escape(name)}</text>')
        y += _ROW
        largest = max((bar.value for bar in bars), default=0) or 1
        for bar in bars:
            width = max(1, round(bar.value / largest * _WIDTH))
            parts.append(
                f'<text x="{_LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(bar.label)}</text>'
                f'<rect x="{_LEFT}" y="{y + 1}" width="{width}" height="{_ROW - 4}" '
                f'fill="{_COLOURS[bar.colour % len(_COLOURS)]}"/>'
                f'<text x="{_LEFT + width + 6}" y="{y + 12}">{escape(bar.text)}</text>'
            )
            y += _ROW
        y += _GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 140}" height="{y}" '
        'font-family="sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="white"/>'
        f'<text x="8" y="22" font-size="15">{escape(title)}</text>'
    )
    return "\n".join([head, *parts, "</svg>", ""])
