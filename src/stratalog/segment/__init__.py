"""One base offset: a .log file and its .index, .timeindex and .txnindex; and the scan of one segment."""
