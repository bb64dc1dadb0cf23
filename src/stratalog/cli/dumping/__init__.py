"""What `stratalog dump` prints of each kind of file, line for line as Kafka's dump tool or as JSON."""
