"""Puts the page together: template, style and programs of this package, and the document.

Names, paths and bytes from a disk may be hostile. They are in the document, which is escaped so that it
cannot end its HTML element, and which the programs show as text. Paths are also in the title and in the
verdict, which are escaped as HTML. The page's content security policy lets a browser run only these programs,
and load nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib.resources import files

from stratalog.operations.audit.audit_report import AuditReport
from stratalog.operations.audit.page.document import document_of
from stratalog.operations.audit.page.map import AuditMap
from stratalog.operations.words import time_text

# Joined in this order into one program.
PROGRAMS = (
    "base.js",
    "treemap.js",
    "advice.js",
    "findings.js",
    "strip.js",
    "partitions.js",
    "regions.js",
    "main.js",
)


def build_page(report: AuditReport, found: AuditMap) -> str:
    """The whole page. It is ASCII, so that no encoding can spoil it."""
    folder = files(__package__)
    style = folder.joinpath("page.css").read_text("utf-8")
    program = "\n".join(folder.joinpath("js", name).read_text("utf-8") for name in PROGRAMS)
    program = f'"use strict";\n(() => {{\n{program}\n}})();\n'
    policy = (
        f"default-src 'none'; script-src {_digest(program)}; style-src {_digest(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    values = {
        "policy": policy,
        "title": html.escape(f"Audit of {', '.join(found.directories)}"),
        "verdict": html.escape(report.verdict),
        "time": html.escape(time_text(report.now)),
        "style": style,
        "data": embedded(document_of(report, found)),
        "program": program,
    }
    page = folder.joinpath("page.html").read_text("utf-8")
    first, *parts = page.split("{{")
    for part in parts:
        name, _, rest = part.partition("}}")
        first += values[name] + rest
    return first.encode("ascii", "xmlcharrefreplace").decode("ascii")


def embedded(document: object) -> str:
    """JSON for a script element: nothing in it ends the element or begins a comment."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
