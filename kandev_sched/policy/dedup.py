"""Idempotency keys, occurrence ids and fingerprints: what makes two things the same thing (S0, S1)."""

from __future__ import annotations

from kandev_sched.domain.errors import Invalid
from kandev_sched.domain.instant import MINUTE_MS, SECOND_MS, rfc3339

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import sha256
else:
    # hashlib would load OpenSSL, a tenth of the time that `sched fire` may take.
    try:
        from _sha256 import sha256  # Python 3.11
    except ImportError:
        try:
            from _sha2 import sha256
        except ImportError:
            from hashlib import sha256

KEY_LIMIT_BYTES = 255
_NAMESPACE_URL = bytes.fromhex("6ba7b8119dad11d180b400c04fd430c8")


def schedule_key(*, routine_id: str, trigger_id: str, slot_at: int) -> str:
    """`routine:<routine>:<trigger>:<unix minute>`: one key a slot of a trigger (S0)."""
    return f"routine:{routine_id}:{trigger_id}:{slot_at // MINUTE_MS}"


def second_key(*, routine_id: str, trigger_id: str, slot_at: int) -> str:
    """`routine:<routine>:<trigger>:@<unix second>`: for a slot that is not on a whole minute (§2)."""
    return f"routine:{routine_id}:{trigger_id}:@{slot_at // SECOND_MS}"


def manual_key(*, routine_id: str, key: str) -> str:
    """`routine:<routine>:manual:<the caller's key, or the id of the routine run>` (S0)."""
    return f"routine:{routine_id}:manual:{key}"


def checked_key(key: str | None) -> str | None:
    """A caller's key; empty means absent. Raises Invalid when it is longer than 255 bytes."""
    if not key:
        return None
    if len(key.encode(errors="surrogateescape")) > KEY_LIMIT_BYTES:
        raise Invalid(f"the key {key[:20]!r}… is too long", hint=f"a key has at most {KEY_LIMIT_BYTES} bytes")
    return key


def occurrence_id(*, workspace_id: str, trigger_id: str, slot_at: int) -> str:
    """`rr_` and the hex of uuid5(NAMESPACE_URL, `sched:<workspace>:<trigger>:<slot>`) (S1 occurrence)."""
    import hashlib

    name = f"sched:{workspace_id}:{trigger_id}:{rfc3339(slot_at)}"
    digest = bytearray(hashlib.sha1(_NAMESPACE_URL + name.encode(), usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    return f"rr_{digest.hex()}"


def fingerprint(*texts: str) -> str:
    """A hash of the texts, each apart from its neighbours (S0 dispatch_fingerprint)."""
    hasher = sha256()
    for text in texts:
        encoded = text.encode(errors="surrogateescape")
        hasher.update(len(encoded).to_bytes(8, "big") + encoded)
    return hasher.hexdigest()
