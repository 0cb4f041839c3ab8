"""Revisions: immutable, numbered definitions of routines and triggers (S1 Resources)."""

from __future__ import annotations

from kandev_sched.domain.record import Record


class Revision(Record):
    """The definition that a subject had from `created_at` on; `number` is its generation then."""

    subject_id: str
    number: int
    definition: dict[str, object]
    principal_id: str | None = None
    created_at: int
