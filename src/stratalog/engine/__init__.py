"""The interface between an operation and the engine that runs it: a pure function, mapped over tasks.

devices    which device a directory is on, and how many readers it can use
engine     `Engine`: the function, the tasks, outcomes as they finish
hosts      work for each host of a cluster, on disks that only it has
measuring  counts what is read from a device, and how fast
progress   the one event that says how far the work is
readers    threads that take a device's tasks in order
threads    `ThreadEngine`: tasks in this process

Not here: what a task does. The engine on Spark is `spark/engine.py`.
"""
