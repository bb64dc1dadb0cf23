"""The one door to the disk. No descriptor leaves this package.

descriptors      open files that are kept for the next use, 256 at most
directories      makes a directory with those above it
disk             `Disk`: the half that changes files
entries          directory entries, file facts, `FileId`, files open for reading
lock             `.lock` of a log directory
names            every name in a log directory: how it is built and parsed
ownership        gives files that root creates to the owner of the directory
paths            paths as text: joined, taken apart, made absolute
planned          a disk that notes changes instead of making them, and reads as if they were made
processes        what must be reset after a fork
reading          `DiskReader`: the half that reads
refusals         the system's refusals as our errors
simulated        a disk in memory that fails or loses power at any step
simulated_crash  what a power cut may take from a simulated disk
simulated_files  what a simulated disk keeps, and what survives a power cut
storage          which paths can be read from, and the reader for each; which are local

Not here: what is in a file. Nothing outside opens one or looks into a `FileId`.
"""
