"""The public face of a log: `PartitionLog`, views and consuming."""
