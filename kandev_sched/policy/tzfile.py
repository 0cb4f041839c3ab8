"""TZif files (RFC 8536): when a zone's offset changes, as plain seconds.

`ZoneInfo` answers which offset holds at an instant, but not when it changes next; finding that by asking it
again and again costs more than all the rest of a schedule. The file just lists the changes, and ends with the
rule by which they go on for ever.
"""

from __future__ import annotations

import re
import struct
from datetime import date, timedelta
from itertools import chain
from operator import itemgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

DAY = 86_400
# More than any offset or change of an offset, and less than the time between any two changes of a zone;
# a test reads all of tzdata to keep that true.
NEARBY = 2 * DAY

_EPOCH = date(1970, 1, 1)
_END = 9999  # the year with which the calendar ends
_FOR_EVER = 1 << 40
_YEARS_AT_ONCE = 32
_HEADER = 44  # bytes

_NAME = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)"
_TIME = r"([+-]?[0-9]{1,3}(?::[0-9]{2}){0,2})"
_DAY = rf"(M[0-9]{{1,2}}\.[1-5]\.[0-6]|J?[0-9]{{1,3}})(?:/{_TIME})?"
_RULE = re.compile(rf"{_NAME}{_TIME}(?:{_NAME}{_TIME}?,{_DAY},{_DAY})?")

Change = tuple[int, int]  # the second since 1970 at which an offset begins, and the offset


class Offsets:
    """The offsets of a zone over all time. Immutable to its users; the rule is followed as far as asked."""

    __slots__ = ("_known", "_listed_until", "_rule")

    def __init__(self, data: bytes) -> None:
        first, changes, rule = _read(data)
        self._rule = _yearly(rule)
        self._listed_until = changes[-1][0] if changes else -_FOR_EVER
        # One tuple, replaced as a whole, so that threads see all of a growth or none of it.
        self._known = *_merged([], [first], changes), _year(self._listed_until)

    def through(self, second: int) -> tuple[list[int], list[int]]:
        """The seconds of all changes up to this one, with two days to spare, and the offsets.

        offsets[i] holds from at[i - 1] until at[i]. A longer answer begins with the shorter ones.
        """
        at, offsets, year = self._known
        if self._rule is None or year == _END or second < _new_year(year) - NEARBY:
            return at, offsets
        years = range(year, min(_year(second) + _YEARS_AT_ONCE, _END))
        news = sorted(chain.from_iterable(map(self._rule, years)), key=itemgetter(0))
        grown = _merged(at, offsets, [change for change in news if change[0] > self._listed_until])
        self._known = *grown, years.stop
        return grown


def _merged(at: list[int], offsets: list[int], changes: Iterable[Change]) -> tuple[list[int], list[int]]:
    """Both lists with more changes, leaving out those that keep the offset (of a name, or of `isdst`)."""
    at, offsets = at.copy(), offsets.copy()
    for second, offset in changes:
        if offset != offsets[-1]:
            at.append(second)
            offsets.append(offset)
    return at, offsets


def _read(data: bytes) -> tuple[int, list[Change], str]:
    """The first offset, the listed changes, and the rule for later ones."""
    *_, end = _block(data, 0, 4)
    times, kinds, offsets, end = _block(data, end, 8)
    seconds = struct.unpack_from(f">{len(kinds)}q", times)
    rule = data[end:].decode("ascii").strip("\n")
    return offsets[0], [(at, offsets[kind]) for at, kind in zip(seconds, kinds, strict=True)], rule


def _block(data: bytes, start: int, width: int) -> tuple[bytes, bytes, list[int], int]:
    """A header with its data: times, the kind of each, the offset of each kind, and where the block ends."""
    isut, isstd, leaps, count, kinds, chars = struct.unpack_from(">6l", data, start + 20)
    start += _HEADER
    middle = start + count * width
    end = middle + count
    offsets = [struct.unpack_from(">l", data, end + 6 * kind)[0] for kind in range(kinds)]
    after = end + 6 * kinds + chars + leaps * (width + 4) + isstd + isut
    return data[start:middle], data[middle:end], offsets, after


def _yearly(rule: str) -> Callable[[int], list[Change]] | None:
    """The changes of a year by a POSIX rule such as CET-1CEST,M3.5.0,M10.5.0/3; None when it has none."""
    match = _RULE.fullmatch(rule)
    if match is None:
        raise ValueError(f"{rule!r} is no rule for a time zone")
    standard, summer, begins, begins_at, ends, ends_at = match.groups()
    if begins is None:
        return None
    usual = -_seconds(standard)  # POSIX counts westwards
    other = usual + 3_600 if summer is None else -_seconds(summer)
    begin_time, end_time = _seconds(begins_at or "2") - usual, _seconds(ends_at or "2") - other
    return lambda year: [
        (_day(begins, year) * DAY + begin_time, other),
        (_day(ends, year) * DAY + end_time, usual),
    ]


def _day(text: str, year: int) -> int:
    """Days from 1970 to the day of a rule in a year."""
    new_year = (date(year, 1, 1) - _EPOCH).days
    if text[0] != "M":
        number = int(text.removeprefix("J"))
        leap = (date(year, 3, 1) - date(year, 2, 28)).days - 1
        return new_year + (number - 1 + leap * (number > 59) if text[0] == "J" else number)
    month, week, weekday = map(int, text[1:].split("."))
    first = date(year, month, 1)
    day = first + timedelta((weekday - first.isoweekday()) % 7 + 7 * (week - 1))
    return (day - _EPOCH).days - (7 if day.month != month else 0)  # the fifth week means the last


def _seconds(text: str) -> int:
    hours, minutes, seconds, *_ = [*map(int, text.lstrip("+-").split(":")), 0, 0]
    return (hours * 3_600 + minutes * 60 + seconds) * (-1 if text[0] == "-" else 1)


def _new_year(year: int) -> int:
    return (date(year, 1, 1) - _EPOCH).days * DAY


def _year(second: int) -> int:
    first, last = _new_year(1), _new_year(_END)
    return (_EPOCH + timedelta(seconds=min(max(second, first), last))).year
