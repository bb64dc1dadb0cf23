"""Tests against a real Apache Kafka, and the harness that gets, starts, kills and asks it."""
