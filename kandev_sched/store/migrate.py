"""Migrations: forward only, numbered, each in one transaction, after a backup; a newer schema is refused.

Called with the gate held, so that two first commands do not create one database twice.
"""

from __future__ import annotations

import os
import time

import apsw

from kandev_sched.domain.errors import Unusable

SCHEMA_VERSION = 1
APPLICATION_ID = 0x5C4ED001  # marks the file as ours; an empty file becomes ours, another program's never
_FOLDER = os.path.join(os.path.dirname(__file__), "migrations")


def schema_version(connection: apsw.Connection, path: str) -> int:
    """The version of an opened file, 0 when it is new. Raises Unusable for what this program cannot use."""
    version, application_id = int(connection.pragma("user_version")), int(connection.pragma("application_id"))
    if version > SCHEMA_VERSION:
        raise Unusable(
            f"{path} has schema version {version}; this program knows versions up to {SCHEMA_VERSION}",
            hint="use a newer sched; the file was not touched",
        )
    is_empty = not connection.execute("SELECT count(*) FROM sqlite_master").get
    if application_id != APPLICATION_ID and not (version == 0 and is_empty):
        raise Unusable(f"{path} is a database of another program", hint="choose another file with --db")
    return version


def migrate(connection: apsw.Connection, path: str) -> None:
    """Bring the file to SCHEMA_VERSION."""
    version = schema_version(connection, path)
    if 0 < version < SCHEMA_VERSION:
        back_up(
            connection, f"{path}.before-v{SCHEMA_VERSION}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
        )
    for number in range(version + 1, SCHEMA_VERSION + 1):
        _apply(connection, number)


def _apply(connection: apsw.Connection, number: int) -> None:
    with open(migration_file(number), encoding="utf-8") as script:
        text = script.read()
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(text)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={number}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def migration_file(number: int) -> str:
    """The script of one version."""
    (name,) = (name for name in os.listdir(_FOLDER) if name.startswith(f"{number:04}_"))
    return os.path.join(_FOLDER, name)


def back_up(connection: apsw.Connection, target: str) -> None:
    """A consistent copy through SQLite's backup API (a plain copy of a live file would be torn)."""
    mask = os.umask(0o077)
    try:
        copy = apsw.Connection(target)
    finally:
        os.umask(mask)
    with copy.backup("main", connection, "main") as backup:
        backup.step()
    copy.close()
