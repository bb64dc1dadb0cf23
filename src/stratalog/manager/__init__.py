"""The runtime of a node: all its logs, open in one process.

cleaner          cleans logs in the background, and deletes old segments
cleaner_manager  hands logs to the cleaner's threads; keeps the cleaner's checkpoints
cleaning_states  whether a log is being cleaned, or its cleaning is paused
closing          the end of a clean run, in Kafka's order
copies           copies of logs on their way to another directory
creation         creates new logs
homes            runs changes inside directories, and takes one offline if its disk fails
housekeeping     periodic flushes, checkpoints and expiry of producers
life             whether a manager may be used, and by which process
loading          opens the logs of the directories
manager          `LogManager`: open, create, delete, move, close
moving           moves a log: fill a copy, then swap
placement        chooses the directory of a new log
registry         the logs by partition: current, copies, offline
removal          deletes partitions
schedule         periodic tasks
starting         opens the session, and checks that its directories belong together
throttle         limits how many bytes a second are read and written
truncation       truncates logs while their cleaning is paused

Not here: work on stopped directories (`operations/`); locks and clean-shutdown files (`directory/`).
"""

from stratalog.null_handler import add_null_handler

add_null_handler()
