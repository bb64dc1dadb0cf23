"""All access to the disk. No file descriptor leaves this package.

descriptors      keeps files open for the next use, at most 256
directories      creates a directory and its missing parents; removes one with everything in it
disk             `Disk`: the half that changes files
entries          directory entries, file facts, `FileId`, files open for reading
lock             `.lock` of a log directory
names            every name in a log directory: how it is built and parsed
ownership        gives files that root creates to the owner of the directory
paths            paths as text: joined, taken apart, made absolute
planned          a disk that records changes instead of making them, and reads as if they were made
processes        what must be reset after a fork
reading          `DiskReader`: the half that reads
refusals         the system's refusals as our errors
simulated        a disk in memory that fails or loses power at any step
simulated_crash  what a power cut may take from a simulated disk
simulated_files  the files of a simulated disk, and what survives a power cut
stamps           whether another machine sees the same file
storage          which paths can be read, and by which reader; which are local

Not here: what is in a file. Code outside this package never opens a file or looks into a `FileId`.
"""
