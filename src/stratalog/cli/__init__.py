"""The command line: one file for each command. Nothing outside imports this package.

append         `stratalog append`
audit          `stratalog audit`
bench          `stratalog bench startup`: how long loading takes, strategy by strategy
broker         what the command line and a server.properties say about a broker
cat            `stratalog cat`
compact        `stratalog compact`
compiling      says why a command waits for its kernels
completion     `stratalog completion`, and the names that it completes
demo           `stratalog demo`: a broker's directory, a power cut, and the recovery
demo_damage    the power cut, and the damage that `demo` plants
demo_groups    the transactions and the consumer groups of `demo`
demo_logs      the logs that `demo` builds, the same bytes for the same seed
doctor         `stratalog doctor`
du             `stratalog du`
dump           `stratalog dump`
dumping/       what `dump` prints of each kind of file
entry          what `stratalog` runs first: `--version` before anything is imported
erase          `stratalog erase`
estimate       `stratalog estimate`
explain        `stratalog explain`
export         `stratalog export`
format         `stratalog format`
groups         `stratalog groups`
index          `stratalog index`
interrupts     raises Ctrl-C again if Python has dropped it
lazy           a group that imports a command when it is used
ls             `stratalog ls`
main           the group of commands; the only place that catches StratalogError
manual         `stratalog manual`: the man page
offsets        `stratalog offsets`
options        the options that commands share, each written once
output         prints reports, tables, JSON and progress; exit codes
parquet        `--to`: the rows of a report as Parquet
progress       progress events (`engine/progress.py`) in words
quarantine     `stratalog quarantine list`, `show`, `restore` and `purge`
recover        `stratalog recover`
retain         `stratalog retain`
size           sizes on the command line, such as 400MB
spark_options  options and session of the commands that run on Spark
sql            `stratalog sql`
startup/       the parts of `bench startup`
table_text     tables as text: columns that fit, bars, and the forms that rich does not draw
transactions   `stratalog transactions`
warm           `stratalog warm`
warming        compiles every kernel by running a small log through all of them

Not here: anything that decides or changes. A command reads its options, calls `operations/`, `jobs/`,
`questions/` or `spark/`, and hands the report to `output`.
"""
