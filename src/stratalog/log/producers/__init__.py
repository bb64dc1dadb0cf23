"""What a log knows about its producers: their last batches, their open transactions, and snapshots of both.

analysis        what a set of batches changes, before it is written
append_info     what an append changes for one producer
entry           what a log remembers about one producer
manager         `ProducerStateManager`: the state
markers         the ends of transactions, read from control batches
rebuild         rebuilds the state from a snapshot and the batches after it
snapshot        the bytes of a .snapshot file
snapshot_files  the .snapshot files of one log
transactions    open transactions, in the order in which they began
verification    guards against transactions that never end

Not here: the log and its lock. A caller that changes the state holds the lock.
"""
