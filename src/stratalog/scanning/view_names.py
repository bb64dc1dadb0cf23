"""Finds names of topics in the text of a query.

A name that is only a part of another name is not taken for a topic, and neither is a field of a value. A
topic that the query does not read may have no schema, and would make the query fail.
"""

from __future__ import annotations

import re

_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`""")
# With these in a query, quoted text cannot be distinguished from names.
_UNSURE = ("\\", "--", "/*", "$$")


def is_named(name: str, query: str) -> bool:
    """Whether the query may read the view of this name; also True for a column of the same name."""
    # Topics can have dots and hyphens in their names; two hyphens begin a comment.
    pattern = rf"(?<![\w.-])(main\.)?{re.escape(name)}(?![\w.]|-(?!-))"
    return re.search(pattern, _without_texts(query), re.IGNORECASE) is not None


def _without_texts(query: str) -> str:
    """The query without what is in single quotes, such as the name in `topic = 'orders'`."""
    if any(each in query for each in _UNSURE):
        return query
    return _QUOTED.sub(lambda found: "''" if found[0].startswith("'") else found[0], query)


def two_meanings(topic: str) -> str:
    """What to say about a query that reads a topic with the name of a view."""
    return (
        f"{topic} is a topic here, and has the name of a view: read the topic with stratalog.scan(..., "
        f"topics='{topic}'), and the rows of the view with stratalog.scan or stratalog.tables."
    )
