"""The smallest and largest numbers that fit into Java's types, and so into Kafka's fields."""

INT16_MAX = 2**15 - 1
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
MAX_MS = INT64_MAX // 1000  # the last time in milliseconds that microseconds can hold
