"""How many jobs a pass over some tables has moved."""

from dataclasses import dataclass, fields


@dataclass
class Done:
    """How many jobs one pass moved."""

    promoted: int = 0
    reaped: int = 0
    archived: int = 0
    pruned: int = 0
    tidied: int = 0  # by MAINTENANCE

    def __add__(self, other: "Done") -> "Done":
        return Done(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __str__(self) -> str:
        parts = [f"{getattr(self, f.name)} {f.name}" for f in fields(self) if getattr(self, f.name)]
        return ", ".join(parts) or "nothing to do"
