"""Where Spark looks for data sources: any top-level `pyspark_*` module with a `DefaultSource`.

It makes `format("stratalog")` known to every session without registering it. Spark imports this wherever it
plans, and one such module that fails hides all sources found this way: so it imports little and never fails.
"""

try:
    from stratalog.spark.source import StratalogSource as DefaultSource
except ImportError:  # a pyspark without Python data sources, or none
    __all__: list[str] = []
else:
    __all__ = ["DefaultSource"]
