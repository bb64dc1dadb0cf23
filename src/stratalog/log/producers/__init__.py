"""What a log knows of its producers: their last batches, their open transactions, and the snapshots of both.

`manager.py` holds the state, `entry.py` one producer's. `analysis.py` says what a set of batches changes,
with `append_info.py` for one producer and `markers.py` for the ends of transactions; `transactions.py` and
`verification.py` are what is open and what is being verified. `snapshot.py` is the format of a .snapshot
file, `snapshot_files.py` the files of one log, `rebuild.py` how the log's batches give the state again.
Nothing here knows the log or its lock: whoever changes the state holds that.
"""
