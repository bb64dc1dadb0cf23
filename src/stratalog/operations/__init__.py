"""Operations on log directories. Those that change something need a stopped broker.

append           appends lines as records to a lone log
audit/           checks every byte and changes nothing; a broker may run
compact          compaction, whatever min.cleanable.dirty.ratio says
disk_tree        the files of directories as a tree with sizes, and as ncdu reads it
doctor           whether a broker may be started here
du               what fills the disk, and when retention frees it
du_keys          how much of the disk each key prefix takes
du_report        the report of `du`
erase/           erasing records
estimate         what compaction would free, by topic, key and prefix
estimate_by_host  each host estimates its own directories
estimate_report  the report of `estimate`
estimate_task    the estimate of one partition, as a task
explain          why a segment is still there, and when it will be deleted
explain_report   its report
format_report    the report of `format`
freeing          what retention frees next, and the growth of a log
index            rebuilds indexes that are missing or wrong
index_report     its report
looking          the partitions as they are, opened read-only
ls               topics, partitions and segments, from names, sizes and headers
ls_report        its report
maintaining      `Maintenance`: runs `retain` and `compact` in a session
named            which topics and partitions a request means, and whether they are there
named_on_hosts   checks that at least one host of a cluster has a topic or partition of a given name
opening          opens directories for an operation, or reads them for a dry run
quarantine       what recovery has kept: listed, shown, restored, purged
quarantine_report  its report
read_progress    progress in bytes read
recover          recovery's options, report and verdict: whether the broker may be started
recover_tables   the tables and JSON of that report
rehearsing       the cleaner without a change, for `compact --dry-run` and `estimate`
report           `Report`: tables, sentences, totals, verdict, status, JSON
request          `NodeRequest`: directories, topics and settings, for operations that open directories
retain           retention by the limits of each topic
words            numbers as people read them
work_report      the report of `retain` and `compact`

Not here: rules that a running node needs too (`log/retention.py`, `log/cleaning/`), and terminals (`cli/`).
"""
