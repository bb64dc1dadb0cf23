"""Avro values as Arrow columns: schemas, the rules for converting between them, decoding.

decode    values of many writers as one column, with reasons
defaults  the default of a field as the bytes of a value
layout    the Arrow type of a schema, and its output columns
resolve   the program that reads values of a writer's schema as values of the reader's
schema    the JSON text as a tree

Not here: the loop over the bytes (`kernels/avro.py`), and where schemas come from (`jobs/decoding/`).
"""
