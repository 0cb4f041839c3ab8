"""Revisions of definitions. They are only ever added."""

from __future__ import annotations

from kandev_sched.domain.revisions import Revision
from kandev_sched.store.sql import Sql, insert_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.store.db import Reader, Tx

_ADD = insert_of("revisions", Revision)


def add(tx: Tx, revision: Revision) -> None:
    """Insert a revision; its number is new."""
    tx.insert(_ADD, revision)


_OF_SUBJECT = Sql("SELECT * FROM revisions WHERE subject_id = :subject_id ORDER BY number", Revision)


def of_subject(reader: Reader, subject_id: str) -> list[Revision]:
    """The revisions of a routine or trigger, oldest first."""
    return reader.all(_OF_SUBJECT, subject_id=subject_id)


_ONE = Sql("SELECT * FROM revisions WHERE subject_id = :subject_id AND number = :number", Revision)


def numbered(reader: Reader, subject_id: str, number: int) -> Revision | None:
    """One revision."""
    return reader.one(_ONE, subject_id=subject_id, number=number)
