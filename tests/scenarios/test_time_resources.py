"""Occurrences, revisions, execution scope, reconstruction: what S1 asks of a trigger (AG-, SC- cases)."""

from __future__ import annotations

import json
import uuid

import pytest
from world import DAY, HOUR, MINUTE, START, World, ms

from kandev_sched.domain.errors import Conflict, Denied, Invalid, NotFound
from kandev_sched.domain.routines import CatchUpPolicy, ConcurrencyPolicy, RoutineRunStatus
from kandev_sched.domain.runs import RunStatus
from kandev_sched.domain.schedules import Trigger
from kandev_sched.domain.workspaces import Role
from kandev_sched.flow.arming import rearm
from kandev_sched.operations import doctor, principals, resources
from kandev_sched.operations import routines as routine_operations
from kandev_sched.operations import workspaces as workspace_operations
from kandev_sched.operations.listing import routine_rows
from kandev_sched.operations.schedules import Schedule
from kandev_sched.store import routines

EVERY_FIVE = "*/5 * * * *"
SKIP_MISSED, FIRE_ONCE = CatchUpPolicy.SKIP_MISSED, CatchUpPolicy.FIRE_ONCE


def resource(world: World, trigger: Trigger) -> dict:
    current = world.trigger(trigger)
    return world.db.read(lambda reader: resources.trigger_resource(reader, current))


def etag(world: World, trigger: Trigger) -> str:
    return resource(world, trigger)["metadata"]["etag"]


# --- occurrences ------------------------------------------------------------------------------------------


def test_the_occurrence_of_a_slot_is_the_uuid5_of_workspace_trigger_and_utc_instant(world: World) -> None:
    """S1: AG-07, behaviour §3: whatever the zone in which the slot was thought of, 08:00+02:00 = 06:00Z."""
    world.host.set_clock(ms("2027-08-20T20:00:00Z"))
    bot = world.given_agent()
    routine = world.given_routine(agent=bot, cron="0 8 * * *", zone="Europe/Paris")
    trigger = world.trigger_of(routine)
    world.live_until(ms("2027-08-21T06:00:00Z"))
    (occurrence,) = world.routine_runs_of(routine)
    name = f"sched:{routine.workspace_id}:{trigger.id}:2027-08-21T06:00:00Z"
    assert occurrence.id == f"rr_{uuid.uuid5(uuid.NAMESPACE_URL, name).hex}"
    world.set_trigger(trigger, zone="UTC", cron="0 6 * * *")
    world.host.set_clock(ms("2027-08-21T05:00:00Z"))
    world.change("UPDATE triggers SET next_run_at = NULL")
    world.db.write(rearm)
    world.live_until(ms("2027-08-21T07:00:00Z"))
    assert [o.id for o in world.routine_runs_of(routine)] == [occurrence.id]  # the generation is not in it


def test_an_occurrence_exists_once_and_is_inserted_before_anything_else(world: World) -> None:
    """S1: AG-06, AG-08: the same slot again returns what came of it first; nothing is submitted twice."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    first = world.fire_by_schedule(routine, slot_at=START + 5 * MINUTE)
    again = world.fire_by_schedule(routine, slot_at=START + 5 * MINUTE)
    assert again.is_duplicate
    assert again.routine_run.id == first.routine_run.id
    assert len(world.requests()) == len(world.runs()) == 1
    order: list[str] = []
    run_of = type(world.db).write

    def spying(db, work):
        def watched(tx):
            plain_run, plain_insert = tx.run, tx.insert
            tx.run = lambda sql, **p: (order.append(sql.text.split("(")[0]), plain_run(sql, **p))[1]
            tx.insert = lambda sql, record: (order.append(sql.text.split("(")[0]), plain_insert(sql, record))[
                1
            ]
            return work(tx)

        return run_of(db, watched)

    type(world.db).write = spying
    try:
        world.advance(600)
        world.tick()
    finally:
        type(world.db).write = run_of
    made = [text.split()[2] for text in order if text.startswith("INSERT INTO")]
    assert made.index("routine_runs") < made.index("wakeup_requests")


@pytest.mark.parametrize("seconds", [1, 10, 30])
def test_slots_of_one_minute_are_slots_of_their_own(world: World, seconds: int) -> None:
    """behaviour §2 Idempotency keys: seconds-resolution schedules use the unix second."""
    bot = world.given_agent()
    made = [
        world.given_routine("q", agent=bot, schedule=Schedule(quartz=f"0/{seconds} * * * * ?", zone="UTC")),
        world.given_routine(
            "i", agent=bot, schedule=Schedule(every=f"PT{seconds}S", start_at="2026-12-01T09:00:00Z")
        ),
    ]
    world.live_until(START + MINUTE, works=False)
    for routine in made:
        assert world.fired_slots(routine) == list(
            range(START + seconds * 1000, START + MINUTE + 1, seconds * 1000)
        )
        keys = [o.idempotency_key for o in world.routine_runs_of(routine)]
        assert keys[0].endswith(f":@{START // 1000 + seconds}")
        assert keys[-1].endswith(f":{START // MINUTE + 1}")


# --- generation, etag, revisions --------------------------------------------------------------------------


def test_a_fire_never_changes_the_etag_and_an_edit_always_does(world: World) -> None:
    """S1: SC-15: status lives elsewhere, so an edit with an etag from before a fire is accepted."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    trigger = world.trigger_of(routine)
    before = etag(world, trigger)
    world.live_until(START + HOUR)
    assert world.trigger(trigger).fire_count == 12
    assert etag(world, trigger) == before
    assert (world.trigger(trigger).generation, world.trigger(trigger).observed_generation) == (1, 1)
    changed = world.set_trigger(trigger, cron="*/10 * * * *", if_match=before)
    assert (changed.generation, changed.observed_generation) == (2, 2)
    with pytest.raises(Conflict):
        world.set_trigger(trigger, cron="*/20 * * * *", if_match=before)
    assert world.trigger(trigger) == changed


def test_the_envelope_tells_the_wanted_from_the_observed(world: World) -> None:
    """S1: apiVersion, kind, metadata, definition, observed."""
    routine = world.given_routine("look", agent=world.given_agent(), cron=EVERY_FIVE)
    trigger = world.trigger_of(routine)
    found = resource(world, trigger)
    assert list(found) == ["apiVersion", "kind", "metadata", "definition", "observed"]
    assert (found["apiVersion"], found["kind"]) == ("sched/v1", "Trigger")
    assert set(found["metadata"]) == {"uid", "workspace", "namespace", "name", "generation", "etag"}
    assert found["definition"]["expression"] == EVERY_FIVE
    assert found["observed"]["armed"] is True
    world.live_until(START + 5 * MINUTE)
    later = resource(world, trigger)
    assert {**later, "observed": None} == {**found, "observed": None}
    assert later["observed"]["last_fired_at"] == "2026-12-01T09:05:00Z"
    whole = world.db.read(lambda reader: resources.routine_resource(reader, routine))
    assert (whole["kind"], whole["metadata"]["name"]) == ("Routine", "look")


def test_disabling_with_a_stale_etag_changes_nothing(world: World) -> None:
    """S1: AG-03: disable with its etag is generation 2; the same old etag again is a conflict."""
    trigger = world.trigger_of(world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE))
    assert (trigger.generation, trigger.principal_id is not None) == (1, True)
    old = etag(world, trigger)
    assert world.set_trigger(trigger, enabled=False, if_match=old).generation == 2
    with pytest.raises(Conflict):
        world.set_trigger(trigger, enabled=True, if_match=old)
    assert world.trigger(trigger).enabled is False


def test_revisions_are_numbered_compared_and_brought_back(world: World) -> None:
    """S1 revisions: history, diff, rollback; a rollback is a new revision and moves no slot."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE, description="one")
    world.set_routine(routine, description="two", catch_up_max=3)
    next_run_at = world.trigger_of(routine).next_run_at
    rows = world.db.read(lambda reader: resources.revision_rows(reader, routine.id))
    assert [(row["number"], row["changed"]) for row in rows] == [
        (1, ["created"]),
        (2, ["catch_up_max", "description"]),
    ]

    def diff(first: int, second: int) -> dict:
        return world.db.read(
            lambda reader: resources.changes_between(
                resources.the_revision(reader, routine.id, first),
                resources.the_revision(reader, routine.id, second),
            )
        )

    assert diff(1, 2) == {"description": ["one", "two"], "catch_up_max": [25, 3]}
    back = world.db.write(lambda tx: routine_operations.roll_back(tx, routines.by_id(tx, routine.id), 1))
    assert (back.description, back.catch_up_max, back.generation) == ("one", 25, 3)
    assert diff(1, 3) == {}
    assert world.trigger_of(routine).next_run_at == next_run_at
    with pytest.raises(NotFound, match="no revision 9"):
        world.db.write(lambda tx: routine_operations.roll_back(tx, back, 9))


def test_an_occurrence_says_which_revisions_it_ran(world: World) -> None:
    """behaviour §3 Resources: an occurrence records the revision that it ran."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    world.set_routine(routine, description="new")
    world.set_trigger(world.trigger_of(routine), input={"a": 1})
    world.set_trigger(world.trigger_of(routine), input={"a": 2})
    world.live_until(START + 5 * MINUTE)
    (occurrence,) = world.routine_runs_of(routine)
    assert (occurrence.generation, occurrence.trigger_generation) == (2, 3)


def test_the_name_of_a_routine_is_free_in_another_namespace(world: World) -> None:
    """S1: AG-05, S1: a namespace is part of a name inside its workspace, not a permission."""
    bot = world.given_agent()
    one = world.given_routine("look", agent=bot, cron=EVERY_FIVE)
    two = world.given_routine("look", agent=bot, cron=EVERY_FIVE, namespace="pack.installed")
    with pytest.raises(Conflict):
        world.given_routine("look", agent=bot, namespace="pack.installed")
    world.live_until(START + 5 * MINUTE)
    assert [len(world.routine_runs_of(routine)) for routine in (one, two)] == [1, 1]
    assert world.set_routine(two, description="x").namespace == "pack.installed"


def test_a_trigger_of_another_workspace_is_not_found(world: World) -> None:
    """S1: AG-05: same name, other workspace → not found."""
    world.given_workspace("other")
    trigger = world.trigger_of(world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE))
    with pytest.raises(NotFound):
        world.set_trigger(trigger, enabled=False, workspace="other")


# --- execution scope --------------------------------------------------------------------------------------


def _disable_principal(world: World, on: bool) -> None:
    world.db.write(lambda tx: principals.set_enabled(tx, workspace="default", name="tester", enabled=not on))


def _make_viewer(world: World, on: bool) -> None:
    role = Role.VIEWER if on else Role.OPERATOR
    world.db.write(lambda tx: principals.set_member(tx, workspace="default", name="tester", role=role))


def _take_role(world: World, on: bool) -> None:
    role = None if on else Role.OWNER
    world.db.write(lambda tx: principals.set_member(tx, workspace="default", name="tester", role=role))


def _disable_workspace(world: World, on: bool) -> None:
    command = workspace_operations.SetWorkspace(name="default", enabled=not on)
    world.db.write(lambda tx: workspace_operations.set_workspace(tx, command))


@pytest.mark.parametrize(
    ("revoke", "why"),
    [
        (_disable_principal, "principal tester is disabled"),
        (_make_viewer, "principal tester is viewer, which does not grant runs:execute"),
        (_take_role, "principal tester is no member of workspace default"),
        (_disable_workspace, "workspace default is disabled"),
    ],
)
def test_each_fire_asks_again_whether_its_principal_may(world: World, revoke, why: str) -> None:
    """S1: AG-10, SC-14: denied with the reason and nothing else; when it may again it fires again."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    revoke(world, True)
    world.live_until(START + 5 * MINUTE)
    (denied,) = world.routine_runs_of(routine)
    assert (denied.status, denied.reason, denied.finished_at) == (RoutineRunStatus.DENIED, why, world.now)
    assert (world.requests(), world.runs(), world.tasks()) == ([], [], [])
    trigger = world.trigger_of(routine)
    assert (trigger.fire_count, trigger.last_fired_at) == (0, None)
    assert trigger.next_run_at == START + 10 * MINUTE
    codes = [f.code for f in world.db.read(lambda reader: doctor.examine(reader, now=world.now))]
    assert codes == ["trigger-denied"]
    revoke(world, False)
    world.live_until(START + 10 * MINUTE, works=False)
    assert len(world.runs()) == 1
    assert world.fired_slots(routine) == [START + 5 * MINUTE, START + 10 * MINUTE]


def test_there_is_no_bypass_for_a_missing_principal(world: World) -> None:
    """S1: a trigger without a principal fails closed."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    world.change("UPDATE triggers SET principal_id = NULL")
    world.live_until(START + 5 * MINUTE)
    assert [o.status for o in world.routine_runs_of(routine)] == [RoutineRunStatus.DENIED]
    assert world.runs() == []


def test_the_run_carries_who_enabled_the_trigger(world: World) -> None:
    """S1: AG-09, S1: the scope is captured, not that of who happens to serve; a manual fire has its own."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    owner = world.trigger_of(routine).principal_id
    world.db.write(lambda tx: principals.set_member(tx, workspace="default", name="ann", role=Role.OPERATOR))
    world.host.person = "ann"
    world.live_until(START + 5 * MINUTE, works=False)
    (run,) = world.runs()
    (occurrence,) = world.routine_runs_of(routine)
    assert run.principal_id == occurrence.principal_id == owner
    by_hand = world.fire(routine)
    place = world.workspace()
    ann = world.db.read(lambda reader: principals.the_principal(reader, place, "ann"))
    assert by_hand.routine_run.principal_id == ann.id


def test_a_change_of_an_enabled_trigger_is_on_behalf_of_who_changed_it(world: World) -> None:
    """S1: SC-19, S1: enabling, or changing an enabled trigger, snapshots the scope; a disabled one is not."""
    trigger = world.trigger_of(world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE))
    ann = world.db.write(
        lambda tx: principals.set_member(tx, workspace="default", name="ann", role=Role.OPERATOR)
    )
    world.host.person = "ann"
    world.set_routine(world.routine(trigger.routine_id), description="no matter")
    assert world.trigger(trigger).principal_id == trigger.principal_id
    assert world.set_trigger(trigger, input={"a": 1}).principal_id == ann.id
    world.host.person = "tester"
    assert world.set_trigger(trigger, enabled=True).principal_id == trigger.principal_id
    assert world.set_trigger(trigger, enabled=False).principal_id == trigger.principal_id
    world.host.person = "ann"
    assert world.set_trigger(trigger, input={"a": 2}).principal_id == trigger.principal_id
    assert world.set_trigger(trigger, enabled=True).principal_id == ann.id


def test_to_enable_again_takes_a_denied_trigger_over_and_moves_no_slot(world: World) -> None:
    """S1: The remedy that doctor names works."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    trigger = world.trigger_of(routine)
    world.db.write(lambda tx: principals.set_member(tx, workspace="default", name="ann", role=Role.OPERATOR))
    _disable_principal(world, True)
    world.advance(310)  # the slot of 09:05 is due and stays due
    world.host.person = "ann"
    taken = world.set_trigger(trigger, enabled=True)
    assert taken.next_run_at == START + 5 * MINUTE
    world.tick()
    assert len(world.runs()) == 1
    assert world.db.read(lambda reader: doctor.examine(reader, now=world.now)) == []


@pytest.mark.parametrize("revoke", [_disable_principal, _make_viewer, _take_role, _disable_workspace])
def test_who_may_not_run_may_neither_enable_nor_fire_by_hand(world: World, revoke) -> None:
    """S1: enabling without the right, and a manual run, use the same authorization."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    trigger = world.set_trigger(world.trigger_of(routine), enabled=False)
    revoke(world, True)
    with pytest.raises(Denied):
        world.set_trigger(trigger, enabled=True)
    with pytest.raises(Denied):
        world.fire(routine)
    assert world.trigger(trigger) == trigger
    assert world.routine_runs_of(routine) == []


# --- by hand ----------------------------------------------------------------------------------------------


def test_a_manual_fire_is_refused_for_what_is_paused_or_archived_and_leaves_no_row(world: World) -> None:
    """S1: SC-12: refused, no row."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    world.pause_routine(routine)
    with pytest.raises(Conflict):
        world.fire(routine)
    world.resume_routine(routine)
    world.db.write(lambda tx: routine_operations.archive_routine(tx, routines.by_id(tx, routine.id)))
    with pytest.raises((Conflict, NotFound)):
        world.fire(routine)
    assert world.routine_runs_of(routine) == []


def test_a_manual_fire_never_moves_the_schedule_nor_its_last_fire(world: World) -> None:
    """S1: SC-12, SC-13: an occurrence of its own, with a key once; next and last of the schedule stay."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    world.live_until(START + 5 * MINUTE)
    world.advance(61)
    before = world.trigger_of(routine)
    first, again = world.fire(routine, key="k"), world.fire(routine, key="k")
    assert again.is_duplicate
    assert again.routine_run.id == first.routine_run.id
    assert first.routine_run.id.startswith("rr_")
    assert world.trigger_of(routine) == before


# --- static input -----------------------------------------------------------------------------------------


def test_the_input_reaches_the_agent_with_what_identifies_the_occurrence(world: World) -> None:
    """S1 static input: with trigger id, occurrence id, scheduled instant and generation, in the file."""
    world.given_task(agent=(bot := world.given_agent()))
    schedule = Schedule(cron=EVERY_FIVE, input={"repo": "a/b", "keyRef": "cred:x"})
    routine = world.given_routine(agent=bot, schedule=schedule)
    trigger = world.set_trigger(world.trigger_of(routine), on_repeat=None, cron="*/5 * * * 0-6")
    world.live_until(START + 5 * MINUTE, works=False)
    (told,) = json.loads(world.spec_of(world.process()).wakeups_json)
    (occurrence,) = world.routine_runs_of(routine)
    assert told["payload"]["input"] == {"repo": "a/b", "keyRef": "cred:x"}
    assert (told["trigger_id"], told["occurrence_id"], told["generation"]) == (trigger.id, occurrence.id, 2)
    assert told["scheduled_for_at"] == "2026-12-01T09:05:00Z"


def _of_size(size: int) -> dict[str, object]:
    empty = len(json.dumps({"a": ""}).encode())
    return {"a": "x" * (size - empty)}


def test_an_input_of_64_kib_is_the_largest(world: World) -> None:
    """S1: SC-25: 65,536 bytes ok, 65,537 refused."""
    bot = world.given_agent()
    world.given_routine("a", agent=bot, schedule=Schedule(cron=EVERY_FIVE, input=_of_size(65_536)))
    with pytest.raises(Invalid, match="65537 bytes"):
        world.given_routine("b", agent=bot, schedule=Schedule(cron=EVERY_FIVE, input=_of_size(65_537)))


@pytest.mark.parametrize(
    "given",
    [
        {"nested": {"apiKey": "x"}},
        {"a": [{"Password": "x"}]},
        {"api_key": "x"},
        {"x-auth": {"refreshToken": "x"}},
        {"credentialRef": {"token": "x"}},
    ],
)
def test_an_input_with_a_raw_credential_is_refused_and_nothing_is_written(world: World, given: dict) -> None:
    """S1: AG-04, SC-25."""
    bot = world.given_agent()
    with pytest.raises(Invalid, match="looks like a credential"):
        world.given_routine(agent=bot, schedule=Schedule(cron=EVERY_FIVE, input=given))
    assert world.ask("SELECT count(*) FROM routines") == [(0,)]


@pytest.mark.parametrize(
    "given",
    [
        {"password": None},
        {"credentialRef": "x"},
        {"token": "env:TOKEN"},
        {"tokens_used": 3},
        {"secretReference": "x"},
    ],
)
def test_a_reference_to_a_credential_is_kept(world: World, given: dict) -> None:
    """S1: AG-04, SC-25: unless it is a reference."""
    routine = world.given_routine(agent=world.given_agent(), schedule=Schedule(cron=EVERY_FIVE, input=given))
    assert world.trigger_of(routine).input == given


# --- reconstruction ---------------------------------------------------------------------------------------


def test_the_projection_is_rebuilt_from_the_definitions_with_the_same_values(world: World) -> None:
    """S1: SC-01: wipe next_run_at → start → identical next values, no fires; again changes nothing."""
    bot = world.given_agent()
    schedules = [
        Schedule(at="2026-12-24T18:00:00+01:00"),
        Schedule(quartz="0 0 8 ? * MON-FRI", zone="Europe/Paris", spread_s=600),
        Schedule(every="PT6H", start_at="2026-08-01T00:00:00Z"),
        Schedule(cron="0 9 * * *", zone="Asia/Tokyo", start_at="2027-01-01T00:00:00Z"),
    ]
    for number, schedule in enumerate(schedules):
        world.given_routine(f"r{number}", agent=bot, schedule=schedule)
    world.advance(60)
    before = world.ask("SELECT id, next_run_at FROM triggers ORDER BY id")
    world.change("UPDATE triggers SET next_run_at = NULL")
    world.restart()
    assert world.ask("SELECT id, next_run_at FROM triggers ORDER BY id") == before
    assert world.db.write(rearm) == []
    assert world.tick() == 0
    assert world.runs() == []


def test_doctor_finds_what_is_wrong_with_a_schedule_and_mends_what_is_a_projection(world: World) -> None:
    """S1 Reconstruction, `sched doctor --fix`: each finding has a code, a sentence and a remedy."""
    bot = world.given_agent()
    names = ("fine", "unarmed", "misarmed", "invalid", "too far")
    made = {name: world.given_routine(name, agent=bot, cron="0 12 * * *") for name in names}
    ids = {name: world.trigger_of(routine).id for name, routine in made.items()}
    world.change(f"UPDATE triggers SET next_run_at = NULL WHERE id = '{ids['unarmed']}'")
    world.change(f"UPDATE triggers SET next_run_at = next_run_at + 61000 WHERE id = '{ids['misarmed']}'")
    world.change(f"UPDATE triggers SET expression = 'gone' WHERE id = '{ids['invalid']}'")
    world.change(f"UPDATE triggers SET next_run_at = next_run_at + {5 * DAY} WHERE id = '{ids['too far']}'")
    found = {f.subject_id: f for f in world.db.read(lambda reader: doctor.examine(reader, now=world.now))}
    codes = {name: found[ids[name]].code for name in names if ids[name] in found}
    assert codes == {
        "unarmed": "trigger-unarmed",
        "misarmed": "trigger-misarmed",
        "invalid": "trigger-invalid",
        "too far": "trigger-misarmed",
    }
    assert all(finding.sentence and finding.remedy for finding in found.values())
    world.db.write(doctor.mend)
    left = world.db.read(lambda reader: doctor.examine(reader, now=world.now))
    assert [finding.code for finding in left] == ["trigger-invalid"]
    for name in ("fine", "unarmed", "misarmed", "too far"):
        assert world.trigger(ids[name]).next_run_at == START + 3 * HOUR
    assert world.runs() == []


def test_a_trigger_that_was_set_aside_and_repaired_is_armed_and_no_longer_invalid(world: World) -> None:
    """S1: What doctor --fix mended is shown as armed."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    world.change("UPDATE triggers SET expression = 'gone'")
    world.advance(300)
    world.tick()
    assert world.trigger_of(routine).last_error is not None
    (row,) = world.db.read(lambda reader: routine_rows(reader, workspace="default", now=world.now))
    assert row["arming"] == "invalid"
    world.change(f"UPDATE triggers SET expression = '{EVERY_FIVE}'")
    world.db.write(doctor.mend)
    (row,) = world.db.read(lambda reader: routine_rows(reader, workspace="default", now=world.now))
    assert (row["arming"], world.trigger_of(routine).last_error) == ("armed", None)


def test_a_damaged_trigger_does_not_keep_its_routine_from_being_resumed(world: World) -> None:
    """behaviour §3: a trigger that cannot be computed is quarantined; every other goes on."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    world.given_trigger(routine, cron="*/7 * * * *")
    world.pause_routine(routine)
    world.change(f"UPDATE triggers SET expression = 'gone' WHERE expression = '{EVERY_FIVE}'")
    assert world.resume_routine(routine).status == "active"
    damaged, healthy = world.triggers_of(routine)
    assert (damaged.next_run_at, healthy.next_run_at) == (None, START + 7 * MINUTE)
    assert damaged.last_error


def test_a_disabled_trigger_that_a_hand_has_armed_does_not_fire(world: World) -> None:
    """S1: Desired is stronger than observed."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    world.set_trigger(world.trigger_of(routine), enabled=False)
    world.change(f"UPDATE triggers SET next_run_at = {START + MINUTE}")
    world.advance(3600)
    world.tick()
    assert world.routine_runs_of(routine) == []
    assert world.trigger_of(routine).next_run_at is None


# --- anchors, single instants, missed ---------------------------------------------------------------------


def test_an_interval_keeps_its_anchor_through_restarts_and_edits(world: World) -> None:
    """S1: SC-02: every PT6H from midnight; restarted at 07:13:20 the next is 12:00, after an edit as well."""
    world.host.set_clock(ms("2027-08-21T06:30:00Z"))
    schedule = Schedule(every="PT6H", start_at="2027-08-01T00:00:00Z")
    routine = world.given_routine(agent=world.given_agent(), schedule=schedule)
    world.host.set_clock(ms("2027-08-21T07:13:20Z"))
    world.restart()
    noon = ms("2027-08-21T12:00:00Z")
    assert (world.tick(), world.trigger_of(routine).next_run_at) == (0, noon)
    world.set_routine(routine, description="other")
    assert world.set_trigger(world.trigger_of(routine), input={"a": 1}).next_run_at == noon
    assert world.set_trigger(world.trigger_of(routine), every="PT4H").next_run_at == ms(
        "2027-08-21T08:00:00Z"
    )
    assert world.trigger_of(routine).start_at == ms("2027-08-01T00:00:00Z")


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        ("P1M", ["2027-02-28T09:00:00+01:00", "2027-03-31T09:00:00+02:00", "2027-04-30T09:00:00+02:00"]),
        ("PT24H", ["2027-02-01T09:00:00+01:00", "2027-02-02T09:00:00+01:00", "2027-02-03T09:00:00+01:00"]),
    ],
)
def test_calendar_parts_follow_the_wall_and_exact_parts_the_clock(
    world: World, every: str, expected: list[str]
) -> None:
    """S1: SC-24: P1M from 31 January clamps to the end of each month, counted from the anchor."""
    world.host.set_clock(ms("2027-01-31T12:00:00Z"))
    schedule = Schedule(every=every, start_at="2027-01-31T09:00:00+01:00", zone="Europe/Paris")
    routine = world.given_routine(agent=world.given_agent(), schedule=schedule)
    world.live_until(ms(expected[-1]))
    assert world.fired_slots(routine) == [ms(text) for text in expected]


@pytest.mark.parametrize(
    ("policy", "fires"),
    [(CatchUpPolicy.ENQUEUE_MISSED_WITH_CAP, True), (FIRE_ONCE, True), (SKIP_MISSED, False)],
)
def test_a_single_instant_in_the_past_is_decided_once_by_the_policy(
    world: World, policy: CatchUpPolicy, fires: bool
) -> None:
    """S1: SC-06: one late fire, or one missed row; never both, never silent, never again after restarts."""
    routine = world.given_routine(
        agent=world.given_agent(), schedule=Schedule(at="2026-12-01T08:00:00Z"), catch_up=policy
    )
    for _ in range(3):
        world.tick()
        world.restart()
    assert world.fired_slots(routine) == ([ms("2026-12-01T08:00:00Z")] if fires else [])
    assert [record.missed_count for record in world.missed_of(routine)] == ([] if fires else [1])
    assert world.trigger_of(routine).next_run_at is None
    (row,) = world.db.read(lambda reader: routine_rows(reader, workspace="default", now=world.now))
    assert row["arming"] == "finished"
    assert world.db.read(lambda reader: doctor.examine(reader, now=world.now)) == []


def test_a_single_instant_moved_ahead_fires_again_and_moved_back_does_not(world: World) -> None:
    """S1: SC-07: another instant is another occurrence; the old one has its own already."""
    routine = world.given_routine(
        agent=world.given_agent(),
        schedule=Schedule(at="2026-12-01T10:00:00Z"),
        concurrency=ConcurrencyPolicy.ALWAYS_ENQUEUE,
    )
    world.live_until(START + HOUR)
    trigger = world.trigger_of(routine)
    world.set_trigger(trigger, at="2026-12-01T12:00:00+01:00")
    world.live_until(START + 2 * HOUR)
    world.set_trigger(trigger, at="2026-12-01T10:00:00Z")
    world.live_until(START + 9 * HOUR)
    world.tick()
    assert world.fired_slots(routine) == [START + HOUR, START + 2 * HOUR]
    assert world.missed_of(routine) == []


def test_fire_once_after_three_days_is_one_run_that_counts_them(world: World) -> None:
    """S1: SC-03: exactly one run, missed 2 besides it, next tomorrow; a restart adds nothing."""
    world.host.set_clock(ms("2027-08-18T08:30:00Z"))
    schedule = Schedule(quartz="0 0 8 ? * *", zone="UTC")
    routine = world.given_routine(agent=world.given_agent(), schedule=schedule, catch_up=FIRE_ONCE)
    world.host.set_clock(ms("2027-08-21T09:00:00Z"))
    for _ in range(3):
        world.restart()
        world.tick()
    assert world.fired_slots(routine) == [ms("2027-08-21T08:00:00Z")]
    (request,) = world.requests()
    assert (request.payload["missed_ticks"], request.payload["missed_since"]) == (2, "2027-08-19T08:00:00Z")
    assert world.trigger_of(routine).next_run_at == ms("2027-08-22T08:00:00Z")


def test_skip_after_three_days_is_one_record_and_no_run(world: World) -> None:
    """S1: SC-04: 0 runs, one row with missed 3."""
    world.host.set_clock(ms("2027-08-18T08:30:00Z"))
    schedule = Schedule(quartz="0 0 8 ? * *", zone="UTC")
    routine = world.given_routine(agent=world.given_agent(), schedule=schedule, catch_up=SKIP_MISSED)
    world.host.set_clock(ms("2027-08-21T09:00:00Z"))
    world.restart()
    world.tick()
    assert world.runs() == []
    assert [record.missed_count for record in world.missed_of(routine)] == [3]
    assert world.trigger_of(routine).next_run_at == ms("2027-08-22T08:00:00Z")


def test_a_month_of_being_disabled_is_not_caught_up(world: World) -> None:
    """S1: SC-16: disable, wait, enable: no catch-up; a slot in the very instant of enabling does not fire."""
    routine = world.given_routine(agent=world.given_agent(), cron=EVERY_FIVE)
    trigger = world.set_trigger(world.trigger_of(routine), enabled=False)
    world.advance(30 * 86_400)
    assert world.now % (5 * MINUTE) == 0
    assert world.set_trigger(trigger, enabled=True).next_run_at == world.now + 5 * MINUTE
    assert world.tick() == 0
    assert world.routine_runs_of(routine) == []


def test_an_edit_a_second_before_the_slot_moves_it_and_a_second_after_adds_the_new_one(world: World) -> None:
    """S1: SC-18."""
    bot = world.given_agent()
    early, late = (world.given_routine(name, agent=bot, cron="0 10 * * *") for name in ("early", "late"))
    world.live_until(START + HOUR - 1000)
    world.set_trigger(world.trigger_of(early), cron="0 11 * * *")
    world.live_until(START + HOUR + 1000)
    world.set_trigger(world.trigger_of(late), cron="0 11 * * *")
    world.live_until(START + 3 * HOUR)
    assert world.fired_slots(early) == [START + 2 * HOUR]
    assert world.fired_slots(late) == [START + HOUR, START + 2 * HOUR]


def test_a_deleted_trigger_leaves_its_history_and_its_name(world: World) -> None:
    """S1: SC-17: history stays; the same name again has an empty history and a new uid."""
    bot = world.given_agent()
    routine = world.given_routine("same", agent=bot, cron=EVERY_FIVE)
    world.live_until(START + 5 * MINUTE)
    world.db.write(lambda tx: routine_operations.archive_routine(tx, routines.by_id(tx, routine.id)))
    again = world.given_routine("same", agent=bot, cron=EVERY_FIVE)
    assert again.id != routine.id
    assert (len(world.routine_runs_of(routine)), world.routine_runs_of(again)) == (1, [])


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(quartz="0 0 9 1 1 ? 2020", zone="UTC"),
        Schedule(cron="0 9 * * *", end_at="2026-11-01T00:00:00Z"),
        Schedule(every="PT1H", start_at="2026-01-01T00:00:00Z", end_at="2026-02-01T00:00:00Z"),
    ],
)
def test_a_recurring_schedule_without_a_slot_to_come_is_refused(world: World, schedule: Schedule) -> None:
    """S1: SC-20, D10: a schedule that never fires again is no zombie; nothing is stored."""
    bot = world.given_agent()
    with pytest.raises(Invalid, match="never fires"):
        world.given_routine(agent=bot, schedule=schedule)
    assert world.ask("SELECT count(*) FROM triggers") == [(0,)]


def test_a_run_that_waits_does_not_hide_the_slots_that_skip(world: World) -> None:
    """S1: SC-10, SC-11: skip records each slot against the active one; allow gives each its own run."""
    bot = world.given_agent()
    skip = world.given_routine("s", agent=bot, cron=EVERY_FIVE, concurrency=ConcurrencyPolicy.SKIP_IF_ACTIVE)
    allow = world.given_routine("a", agent=bot, cron=EVERY_FIVE, concurrency=ConcurrencyPolicy.ALWAYS_ENQUEUE)
    world.live_until(START + 10 * MINUTE, works=False)
    assert [o.status for o in world.routine_runs_of(skip)] == [
        RoutineRunStatus.RECEIVED,
        RoutineRunStatus.SKIPPED,
    ]
    assert "is active" in world.routine_runs_of(skip)[1].reason
    held = [world.wakeup(o.wakeup_id).run_id for o in world.routine_runs_of(allow)]
    assert len(set(held)) == 2
    assert {world.run(run).status for run in held} == {RunStatus.QUEUED}
