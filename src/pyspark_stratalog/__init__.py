"""Where Spark looks for data sources: any top-level `pyspark_*` module with a `DefaultSource`.

This module makes `format("stratalog")` known to every session without registering it. Spark imports it in
every process that plans. If the import of one `pyspark_*` module fails, Spark finds none of these sources, so
this module imports little and never fails.
"""

try:
    from stratalog.spark.source import StratalogSource as DefaultSource
except ImportError:  # pyspark is missing, or too old for Python data sources
    __all__: list[str] = []
else:
    __all__ = ["DefaultSource"]
