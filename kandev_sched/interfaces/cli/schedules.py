"""What is said when a schedule is made: its zone, its next fires on two clocks, and what DST does to it."""

from __future__ import annotations

from kandev_sched.domain.schedules import Syntax, Trigger, TriggerKind
from kandev_sched.interfaces.times import wall_text, zone_of
from kandev_sched.operations.forecast import Forecast, forecast_of
from kandev_sched.policy import timing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kandev_sched.interfaces.cli.invocation import Invocation

COMING = 5


def announce(here: Invocation, trigger: Trigger, *, is_zone_default: bool) -> None:
    """Say when a new or changed trigger will fire."""
    if trigger.kind is not TriggerKind.SCHEDULE or here.options.is_quiet:
        return
    found = forecast_of(trigger, now=trigger.updated_at, limit=COMING)
    is_said = is_zone_default and trigger.syntax in (Syntax.CRON, Syntax.QUARTZ)
    passed = "no fire is to come"
    if trigger.next_run_at is not None:
        passed = "it has passed, and fires late if the catch-up policy lets it"
    coming = "the next fires:" if found.next_at else passed
    here.say(f"{found.sentence}{' (no --tz was given)' if is_said else ''}; {coming}")
    for line in lines_of(here, found):
        here.say(line)


def lines_of(here: Invocation, found: Forecast) -> list[str]:
    """The next fires, each on the trigger's clock and, where it differs, on the user's; then the note."""
    own, shown = timing.zone_of(found.zone), zone_of(here.zone_shown())
    lines = [_on_both(wall_text(at, own), wall_text(at, shown), found.zone) for at in found.next_at]
    return lines + ([f"Note: {found.note}"] if found.note else [])


def _on_both(own: str, shown: str, zone: str) -> str:
    return f"  {own} {zone}" if own == shown else f"  {own} {zone} = {shown} here"
