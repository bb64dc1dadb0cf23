"""`AuditFinding`: one row of an audit, with where it is and what was found there."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields

from stratalog.files.paths import join_path
from stratalog.operations.audit.kinds import AuditKind, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """One finding.

    `file` is a name in the partition's directory, or in the log directory if `partition` is empty. `position`
    is a byte of the file and `size` how many bytes are concerned; `offset` is the first offset concerned.
    Unknown fields are None. `count` is above 1 if it also stands for later places that are not listed.
    """

    kind: AuditKind
    directory: str
    words: str
    partition: str = ""
    file: str = ""
    position: int | None = None
    size: int | None = None
    offset: int | None = None
    count: int = 1
    consequence_words: str = ""
    remedy_words: str = ""

    @property
    def severity(self) -> Severity:
        return self.kind.rule.severity

    @property
    def consequence(self) -> str:
        return self.consequence_words or self.kind.rule.consequence

    @property
    def remedy(self) -> str:
        return self.remedy_words or self.kind.rule.remedy.replace("{directory}", shlex.quote(self.directory))

    @property
    def path(self) -> str:
        within = "/".join(name for name in (self.partition, self.file) if name)
        return join_path(self.directory, within) if within else self.directory

    @property
    def place(self) -> tuple[object, ...]:
        """The identity of this finding, independent of its words."""
        return self.kind, self.directory, self.partition, self.file, self.position, self.offset

    def to_document(self) -> dict[str, object]:
        """The finding as values for JSON and Arrow."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        del own["consequence_words"], own["remedy_words"]
        return {
            **own,
            "kind": self.kind.value,
            "severity": self.severity.value,
            "consequence": self.consequence,
            "remedy": self.remedy,
        }
