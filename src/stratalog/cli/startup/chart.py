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


def bar_chart(
    title: str,
    groups: Sequence[tuple[str, Sequence[ChartBar]]],
    *,
    legend: Sequence[tuple[str, int]] = (),
) -> str:
    """The SVG document. Each group of bars has its own scale: groups may differ by orders of magnitude.

    `legend` says what the colours mean.
    """
    parts, y = [], _TOP
    if legend:
        parts += [_legend_entry(_LEFT + 130 * at, y, *entry) for at, entry in enumerate(legend)]
        y += _ROW + _GAP
    for name, bars in groups:
        parts.append(f'<text x="8" y="{y + 12}" font-weight="bold">{escape(name)}</text>')
        y += _ROW
        largest = max((bar.value for bar in bars), default=0) or 1
        for bar in bars:
            width = max(1, round(bar.value / largest * _WIDTH))
            parts.append(
                f'<text x="{_LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(bar.label)}</text>'
                f'<rect x="{_LEFT}" y="{y + 1}" width="{width}" height="{_ROW - 4}" '
                f'fill="{_fill(bar.colour)}"/>'
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


def _legend_entry(x: int, y: int, words: str, colour: int) -> str:
    return (
        f'<rect x="{x}" y="{y + 1}" width="14" height="{_ROW - 4}" fill="{_fill(colour)}"/>'
        f'<text x="{x + 20}" y="{y + 12}">{escape(words)}</text>'
    )


def _fill(colour: int) -> str:
    return _COLOURS[colour % len(_COLOURS)]
