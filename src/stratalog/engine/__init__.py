"""The seam between an operation and what runs it: a pure function, mapped over tasks."""
