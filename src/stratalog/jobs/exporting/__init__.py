"""The parts of an export.

folder   the folder of an export, and how each record gets there once
parquet  the Parquet files of a task, one for each topic and day
rows     the columns of an export, and its rows day by day

Not here: the plan and the run (`jobs/export.py`).
"""
