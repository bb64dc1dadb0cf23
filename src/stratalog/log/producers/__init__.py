"""What a log knows of its producers: their last batches, their open transactions, and the snapshots of both.

analysis        what a set of batches changes, before it is written
append_info     what an append changes for one producer
entry           what a log remembers of one producer
manager         `ProducerStateManager`: the state
markers         the ends of transactions, read from control batches
rebuild         the state again, from a snapshot and the batches after it
snapshot        the bytes of a .snapshot file
snapshot_files  the .snapshot files of one log
transactions    open transactions, in the order in which they began
verification    guards against transactions that never end

Not here: the log and its lock. Whoever changes the state holds the lock.
"""
