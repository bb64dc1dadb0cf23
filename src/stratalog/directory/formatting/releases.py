"""The features of a new cluster, by release, as `kafka-storage.sh format --release-version` sets them.

A broker refuses metadata of a newer release than its own, and accepts metadata of an older release. The
versions of the records follow from metadata.version. Kafka: MetadataVersion, Feature
"""

from __future__ import annotations

from typing import NamedTuple

from stratalog.errors import UsageError

DEFAULT_RELEASE = "4.3"
_METADATA_VERSION = "metadata.version"
_ELR = "eligible.leader.replicas.version"
_FIRST_WITH_ELR = 23  # 4.0-IV1: partitions can have eligible leader replicas

_SINCE_4_2 = (
    (_ELR, 1),
    ("group.version", 1),
    ("share.version", 1),
    ("streams.version", 1),
    ("transaction.version", 2),
)
_FEATURES: dict[str, tuple[tuple[str, int], ...]] = {
    "3.9": ((_METADATA_VERSION, 21),),
    "4.0": ((_METADATA_VERSION, 25), ("group.version", 1), ("transaction.version", 2)),
    "4.1": ((_METADATA_VERSION, 27), (_ELR, 1), ("group.version", 1), ("transaction.version", 2)),
    "4.2": ((_METADATA_VERSION, 29), *_SINCE_4_2),
    "4.3": ((_METADATA_VERSION, 30), *_SINCE_4_2),
}
RELEASES = tuple(_FEATURES)


class Release(NamedTuple):
    """A release, and the levels of its features, metadata.version first."""

    name: str
    features: tuple[tuple[str, int], ...]

    @property
    def partition_version(self) -> int:
        """The version of PartitionRecord."""
        return 2 if dict(self.features)[_METADATA_VERSION] >= _FIRST_WITH_ELR else 1

    @property
    def has_elr(self) -> bool:
        """Whether a replica that stops leaves the ISR and stays eligible to lead."""
        return dict(self.features).get(_ELR, 0) > 0


def release_of(name: str) -> Release:
    """The release of this name, such as 4.3; UsageError if it is not one of those here."""
    if name not in _FEATURES:
        raise UsageError(f"the release is {name!r}: it must be one of {', '.join(_FEATURES)}.")
    return Release(name, _FEATURES[name])
