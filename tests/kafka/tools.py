"""Kafka's command line tools, run as a shell script would run them.

Those of the newest release that only answer a question share a JVM (tool_runner.py), the others have one
each.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.kafka.jars import NEWEST, KafkaJars
from tests.waiting import PATIENCE_S

# A JVM that lives for seconds starts soonest with the serial collector and only the C1 compiler.
FAST_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
# What kafka-run-class.sh passes, for timed comparisons.
AS_SHIPPED = (
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Xms1g",
    "-Xmx1g",
)
NO_WORD_OF_ARCHIVES = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
# Text is UTF-8 whatever the locale of the machine; Java 17 knows the second name, newer ones the third.
_UTF8 = ("-Dfile.encoding=UTF-8", "-Dsun.stdout.encoding=UTF-8", "-Dstdout.encoding=UTF-8")

# Segments first: the tool fails at the preallocated index of an empty log, and skips the files after it.
_DUMPED_SUFFIXES = (".log", ".checkpoint", ".snapshot", ".txnindex", ".timeindex", ".index")


class KafkaError(RuntimeError):
    """A broker or a tool failed; the message ends with its last output."""


@dataclass(frozen=True)
class Tool:
    """A tool's main class in 4.x and, if it moved, in 2.x; whether it takes the broker's address."""

    name: str
    name_before_4: str = ""
    asks_broker: bool = True


_NEW, _OLD, _ADMIN = "org.apache.kafka.tools.", "kafka.tools.", "kafka.admin."
TOOLS = {
    "storage": Tool(_OLD + "StorageTool", asks_broker=False),
    "dump-log": Tool(_NEW + "DumpLogSegments", _OLD + "DumpLogSegments", asks_broker=False),
    "producer-perf": Tool(_NEW + "ProducerPerformance", asks_broker=False),
    "console-producer": Tool(_NEW + "ConsoleProducer", _OLD + "ConsoleProducer"),
    "console-consumer": Tool(_NEW + "consumer.ConsoleConsumer", _OLD + "ConsoleConsumer"),
    "console-share-consumer": Tool(_NEW + "consumer.ConsoleShareConsumer"),
    "topics": Tool(_NEW + "TopicCommand", _ADMIN + "TopicCommand"),
    "configs": Tool(_ADMIN + "ConfigCommand"),
    "consumer-groups": Tool(_NEW + "consumer.group.ConsumerGroupCommand", _ADMIN + "ConsumerGroupCommand"),
    "get-offsets": Tool(_NEW + "GetOffsetShell", _OLD + "GetOffsetShell"),
    "delete-records": Tool(_NEW + "DeleteRecordsCommand", _ADMIN + "DeleteRecordsCommand"),
    "transactions": Tool(_NEW + "TransactionsCommand"),
    "log-dirs": Tool(_NEW + "LogDirsCommand", _ADMIN + "LogDirsCommand"),
    "features": Tool(_NEW + "FeatureCommand"),
}
# What asks a question and ends. The others read stdin, wait for records or write directories.
_IN_ONE_JVM = {
    "dump-log",
    "topics",
    "configs",
    "consumer-groups",
    "get-offsets",
    "delete-records",
    "transactions",
    "log-dirs",
}


def run_tool(
    jars: KafkaJars,
    tool: str,
    *arguments: str,
    bootstrap: str | None = None,
    stdin: str | None = None,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a tool by its name in TOOLS; KafkaError if it fails, unless `check` is off.

    With `stdin`, even an empty one, it has a JVM of its own.

    Bytes that are not UTF-8, as a dump of binary values may hold, come back as U+FFFD.
    """
    known = TOOLS[tool]
    main = known.name if jars.numbers >= (4, 0) else known.name_before_4 or known.name
    where = ["--bootstrap-server", bootstrap] if bootstrap and known.asks_broker else []
    command = [main, *where, *arguments]
    is_question = tool in _IN_ONE_JVM and stdin is None
    if is_question and jars.release == NEWEST and _is_the_same_anywhere(arguments):
        from tests.kafka.tool_runner import run_in_one_jvm  # which starts Java with what is here

        status, *output = run_in_one_jvm(jars, command)
    else:
        flags = [*shared_classes(jars, FAST_START), *log_flags(jars, jars.folder, level="WARN", target="err")]
        command = [*java_command(jars, FAST_START, flags), *command]
        done = subprocess.run(
            command, input=(stdin or "").encode(), capture_output=True, timeout=PATIENCE_S, check=False
        )
        status, output = done.returncode, [done.stdout, done.stderr]
    # Decoded here: subprocess would turn a carriage return, which a dumped value may hold, into a line feed.
    stdout, stderr = (each.decode(errors="replace") for each in output)
    if check and status != 0:
        raise KafkaError(f"{main} ended with {status}:\n{stdout[-2000:]}{stderr[-2000:]}")
    return subprocess.CompletedProcess(command, status, stdout, stderr)


def _is_the_same_anywhere(arguments: Sequence[str]) -> bool:
    """Whether the dump tool's files have absolute names: a JVM cannot change its folder."""
    after = dict(pairwise(arguments))
    return all(Path(name).is_absolute() for name in after.get("--files", "/").split(","))


def dump_log(jars: KafkaJars, files: Sequence[Path], *options: str) -> subprocess.CompletedProcess[str]:
    """The output of Kafka's dump tool for segment files, indexes and snapshots, with record contents.

    Data is on stdout, complaints are on stderr, and the exit status is 0 even with mismatches. A decoder
    option such as --offsets-decoder implies the contents; without one, they are requested explicitly.
    """
    wanted = options or ("--print-data-log",)
    return run_tool(jars, "dump-log", *wanted, "--files", ",".join(map(str, files)), check=False)


def dumpable_files(partition: Path) -> list[Path]:
    """The files of a partition directory that the dump tool understands, segments first."""
    return [file for suffix in _DUMPED_SUFFIXES for file in sorted(partition.glob(f"*{suffix}"))]


def java_command(jars: KafkaJars, jvm: Sequence[str], flags: Sequence[str], *folders: Path) -> list[str]:
    """The start of a command line that runs a class out of the jars, and of further class folders."""
    # The jars first: a class archive works only with a class path that begins like its own.
    class_path = os.pathsep.join([jars.class_path, *map(str, folders)])
    return [str(jars.java), *jvm, *_UTF8, *flags, "-Djava.awt.headless=true", "-cp", class_path]


def class_archive(jars: KafkaJars, jvm: Sequence[str]) -> Path:
    """Where the first broker that is stopped leaves an archive of its loaded classes."""
    return jars.folder / f"broker-{'g1' if '-XX:+UseG1GC' in jvm else 'serial'}.jsa"


def shared_classes(jars: KafkaJars, jvm: Sequence[str]) -> list[str]:
    """Flags to start from the archive, if there is one. All programs can use it, because they share most
    classes.

    A JVM of another version cannot use it and runs without it, but must not print that between its answers.
    """
    archive = class_archive(jars, jvm)
    return [f"-XX:SharedArchiveFile={archive}", *NO_WORD_OF_ARCHIVES] if archive.exists() else []


def log_flags(jars: KafkaJars, folder: Path, *, level: str, target: str) -> list[str]:
    """JVM flags that make Kafka log to stdout ("out") or stderr ("err"); `folder` gets the settings."""
    pattern = "[%d] %p %m (%c)%n"
    if jars.numbers >= (4, 0):
        file, option = folder / f"log4j2-{level}.properties", "-Dlog4j2.configurationFile="
        settings = {
            "appender.a.type": "Console",
            "appender.a.name": "A",
            "appender.a.target": f"SYSTEM_{target.upper()}",
            "appender.a.layout.type": "PatternLayout",
            "appender.a.layout.pattern": pattern,
            "rootLogger.level": level,
            "rootLogger.appenderRef.a.ref": "A",
        }
    else:
        file, option = folder / f"log4j-{level}.properties", "-Dlog4j.configuration=file:"
        settings = {
            "log4j.rootLogger": f"{level},A",
            "log4j.appender.A": "org.apache.log4j.ConsoleAppender",
            "log4j.appender.A.target": f"System.{target}",
            "log4j.appender.A.layout": "org.apache.log4j.PatternLayout",
            "log4j.appender.A.layout.ConversionPattern": pattern,
        }
    if not file.exists():
        # Renamed into place: the cache folder is shared, and another process may be reading it right now.
        partial = file.with_suffix(f".{os.getpid()}")
        partial.write_text(properties_text(settings))
        partial.replace(file)
    return [f"{option}{file}"]


def properties_text(settings: dict[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())
