"""Finds names of topics in the text of a query.

A name that is only a part of another one does not count, nor does a field of a value: a topic that a query
does not read may have no schema, and would make the query fail.
"""

from __future__ import annotations

import re


def is_named(name: str, query: str) -> bool:
    """Whether the query may read the view of this name; a column of the same name looks like it too."""
    # Topics can have dots and hyphens in their names; two hyphens begin a comment.
    pattern = rf"(?<![\w.-])(main\.)?{re.escape(name)}(?![\w.]|-(?!-))"
    return re.search(pattern, query, re.IGNORECASE) is not None
