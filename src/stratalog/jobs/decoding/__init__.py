"""Keys and values decoded: as text, JSON, Avro, or by the schema whose id is before each value.

asked         what the caller requests: encodings, schemas, reader schemas
columns       the columns that a read with decoding has
decoding      one column of bytes as decoded columns
finding       the schemas of a read: in files, or in the topic of the schema registry
framed        values with the id of their schema before them
schema_files  schemas in files and folders
schema_topic  schemas in the topic of Confluent's schema registry
store         schemas by id, subject and version
texts         bytes as text or JSON
undecoded     the bytes of values that could not be decoded, and why

Not here: Avro itself (`records/avro/`).
"""
