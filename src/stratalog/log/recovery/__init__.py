"""Recovery of one partition: what is on disk is surveyed, scanned, planned, and only then changed.

facts      the values that a plan and its report are made of
inventory  a listing becomes the directory that a broker would work on; nothing is renamed yet
survey     which segments must be scanned, and why
task       one scan, as a value that travels to a thread or a Spark task
stitch     scans, in the order of the segments, become producer state, aborted transactions and epochs
plan       the steps that lead to the state a clean shutdown leaves
steps      doing them, each only where its precondition holds
"""
