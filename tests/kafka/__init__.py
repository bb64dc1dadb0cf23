"""Tests against a real Apache Kafka, and the harness that downloads, starts, kills and queries it."""
