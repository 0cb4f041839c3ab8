"""Host: all that the machine gives us (time, ids, chance), so that tests and simulators can give it instead.

Instants are INTEGER UTC milliseconds; only here is a clock read.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford base 32: sorts like the number it spells


class Host(Protocol):
    """The clock, the wait clock, names and chance of one machine."""

    def now(self) -> int:
        """The wall clock, in milliseconds since 1970 UTC."""

    def monotonic(self) -> float:
        """Seconds that only move forward, to measure durations."""

    def new_id(self, prefix: str) -> str:
        """`<prefix>_<26 characters>`: unique, and sorted by the time of its making."""

    def uniform(self, low: float, high: float) -> float:
        """A chance value in [low, high)."""

    def user(self) -> str:
        """The name of the person at the machine, on whose behalf commands act."""


def spell_id(prefix: str, at_ms: int, chance: int) -> str:
    """48 bits of time and 80 bits of chance as 26 characters of base 32."""
    number = (at_ms & (1 << 48) - 1) << 80 | chance & (1 << 80) - 1
    digits = [_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5)]
    return f"{prefix}_{''.join(digits)}"


class MachineHost:
    """The real machine. Ids made in the same millisecond count upwards, so they sort as made."""

    def __init__(self) -> None:
        self._last: tuple[int, int] = (0, 0)

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def new_id(self, prefix: str) -> str:
        at_ms, chance = self.now(), int.from_bytes(os.urandom(10), "big") >> 1
        last_ms, last_chance = self._last
        if at_ms <= last_ms:
            at_ms, chance = last_ms, last_chance + 1 + (chance & 0xFFFF)
        self._last = (at_ms, chance)
        return spell_id(prefix, at_ms, chance)

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * int.from_bytes(os.urandom(7), "big") / (1 << 56)

    def user(self) -> str:
        import pwd

        uid = os.getuid()
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:  # a container may run a user that has no name
            return str(uid)
