-- The first schema. Instants are INTEGER UTC milliseconds in columns named …_at.
-- Rows that come in thousands are kept by their id (WITHOUT ROWID), which rises with time: one tree less each.
-- The order of columns is the order of fields of the record that a table fills (tests/store compare them).

CREATE TABLE workspaces (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  enabled INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
  paused_at INTEGER,
  time_zone TEXT NOT NULL DEFAULT 'UTC',
  recovery_lookback_hours INTEGER NOT NULL DEFAULT 24 CHECK (recovery_lookback_hours BETWEEN 1 AND 720),
  office_workflow_id TEXT,
  default_profile_id TEXT REFERENCES profiles (id),
  default_executor_id TEXT REFERENCES executors (id),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE principals (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('person', 'agent', 'system')),
  enabled INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
  created_at INTEGER NOT NULL,
  role TEXT CHECK (role IN ('owner', 'operator', 'viewer')),
  UNIQUE (workspace_id, name)
) STRICT;

CREATE TABLE executors (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('local')),
  created_at INTEGER NOT NULL,
  UNIQUE (workspace_id, name)
) STRICT;

CREATE TABLE profiles (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name TEXT NOT NULL,
  protocol TEXT NOT NULL CHECK (protocol IN ('command')),
  argv TEXT NOT NULL CHECK (json_type(argv) = 'array'),
  env TEXT NOT NULL DEFAULT '{}' CHECK (json_type(env) = 'object'),
  provider_account TEXT,
  max_run_s INTEGER CHECK (max_run_s > 0),
  idle_output_s INTEGER CHECK (idle_output_s > 0),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE (workspace_id, name)
) STRICT;

CREATE TABLE projects (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name TEXT NOT NULL,
  executor_id TEXT REFERENCES executors (id),
  created_at INTEGER NOT NULL,
  archived_at INTEGER,
  UNIQUE (workspace_id, name)
) STRICT;

-- queued_count, claimable_count (those in the lane of that name), claimed_count and the step between idle and
-- working are kept by the triggers on runs, so that the claim looks at agents that have work and may do it
-- now, never at the backlog of the others.
CREATE TABLE agents (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name TEXT NOT NULL,
  role TEXT NOT NULL
    CHECK (role IN ('worker', 'specialist', 'assistant', 'coordinator', 'ceo', 'security', 'qa', 'devops')),
  status TEXT NOT NULL CHECK (status IN ('idle', 'working', 'paused', 'stopped', 'archived')),
  status_reason TEXT,
  profile_id TEXT REFERENCES profiles (id),
  executor_id TEXT REFERENCES executors (id),
  cwd TEXT,
  env TEXT NOT NULL DEFAULT '{}' CHECK (json_type(env) = 'object'),
  max_concurrent_sessions INTEGER NOT NULL DEFAULT 1 CHECK (max_concurrent_sessions BETWEEN 1 AND 1000),
  cooldown_s INTEGER NOT NULL DEFAULT 10 CHECK (cooldown_s BETWEEN 0 AND 604800),
  skip_idle_wakeups INTEGER NOT NULL CHECK (skip_idle_wakeups IN (0, 1)),
  max_run_s INTEGER CHECK (max_run_s > 0),
  last_wakeup_finished_at INTEGER,
  failure_streak INTEGER NOT NULL DEFAULT 0,
  queued_count INTEGER NOT NULL DEFAULT 0 CHECK (queued_count >= 0),
  claimed_count INTEGER NOT NULL DEFAULT 0 CHECK (claimed_count >= 0),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  archived_at INTEGER,
  claimable_count INTEGER NOT NULL DEFAULT 0 CHECK (claimable_count >= 0),
  ready_at INTEGER AS (coalesce(last_wakeup_finished_at + cooldown_s * 1000, 0)) VIRTUAL
) STRICT;
CREATE UNIQUE INDEX agents_name ON agents (workspace_id, name) WHERE archived_at IS NULL;
CREATE INDEX agents_that_may_claim ON agents (workspace_id, ready_at)
  WHERE claimable_count > 0 AND claimed_count < max_concurrent_sessions AND status IN ('idle', 'working');

CREATE TABLE tasks (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  project_id TEXT REFERENCES projects (id),
  workflow_id TEXT,
  parent_id TEXT REFERENCES tasks (id),
  title TEXT NOT NULL,
  description TEXT NOT NULL DEFAULT '',
  state TEXT NOT NULL CHECK (state IN ('TODO', 'IN_PROGRESS', 'IN_REVIEW', 'BLOCKED', 'DONE', 'CANCELLED')),
  assignee_agent_id TEXT REFERENCES agents (id),
  assignment_count INTEGER NOT NULL DEFAULT 0,
  executor_id TEXT REFERENCES executors (id),
  checkout_agent_id TEXT REFERENCES agents (id),
  checkout_run_id TEXT REFERENCES runs (id),
  checkout_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  archived_at INTEGER,
  CHECK ((checkout_run_id IS NULL) = (checkout_agent_id IS NULL))
) STRICT;
CREATE INDEX tasks_actionable_of_agent ON tasks (assignee_agent_id)
  WHERE state IN ('TODO', 'IN_PROGRESS') AND archived_at IS NULL;
CREATE INDEX tasks_checked_out ON tasks (checkout_run_id) WHERE checkout_run_id IS NOT NULL;
CREATE INDEX tasks_of_workspace ON tasks (workspace_id, created_at);

CREATE TABLE task_participants (
  task_id TEXT NOT NULL REFERENCES tasks (id),
  agent_id TEXT NOT NULL REFERENCES agents (id),
  capacity TEXT NOT NULL CHECK (capacity IN ('reviewer', 'approver')),
  PRIMARY KEY (task_id, agent_id, capacity)
) STRICT, WITHOUT ROWID;

CREATE TABLE routines (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  namespace TEXT NOT NULL DEFAULT 'default',
  name TEXT NOT NULL,
  description TEXT NOT NULL DEFAULT '',
  agent_id TEXT NOT NULL REFERENCES agents (id),
  status TEXT NOT NULL CHECK (status IN ('active', 'paused', 'archived')),
  concurrency_policy TEXT NOT NULL
    CHECK (concurrency_policy IN ('coalesce_if_active', 'skip_if_active', 'always_enqueue', 'cancel_active')),
  catch_up_policy TEXT NOT NULL
    CHECK (catch_up_policy IN ('enqueue_missed_with_cap', 'skip_missed', 'fire_once')),
  catch_up_max INTEGER NOT NULL DEFAULT 25 CHECK (catch_up_max BETWEEN 1 AND 1000),
  misfire_grace_s INTEGER NOT NULL DEFAULT 60 CHECK (misfire_grace_s >= 0),
  task_title TEXT,
  task_description TEXT,
  variables TEXT NOT NULL DEFAULT '[]' CHECK (json_type(variables) = 'array'),
  generation INTEGER NOT NULL DEFAULT 1,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  archived_at INTEGER,
  catch_up_max_age_s INTEGER CHECK (catch_up_max_age_s > 0),
  status_note TEXT
) STRICT;
CREATE UNIQUE INDEX routines_name ON routines (workspace_id, namespace, name) WHERE archived_at IS NULL;

-- next_run_at is a projection: NULL while the trigger is not armed (disabled, paused, quarantined).
CREATE TABLE triggers (
  id TEXT PRIMARY KEY,
  routine_id TEXT NOT NULL REFERENCES routines (id),
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  kind TEXT NOT NULL CHECK (kind IN ('schedule', 'manual')),
  syntax TEXT CHECK (syntax IN ('cron', 'quartz', 'interval', 'once')),
  expression TEXT,
  zone TEXT NOT NULL DEFAULT 'UTC',
  enabled INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
  next_run_at INTEGER,
  last_fired_at INTEGER,
  last_error TEXT,
  generation INTEGER NOT NULL DEFAULT 1,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  start_at INTEGER,
  end_at INTEGER,
  max_fires INTEGER CHECK (max_fires > 0),
  fire_count INTEGER NOT NULL DEFAULT 0,
  on_gap TEXT NOT NULL DEFAULT 'skip' CHECK (on_gap IN ('skip', 'shift')),
  on_repeat TEXT NOT NULL DEFAULT 'first' CHECK (on_repeat IN ('first', 'both')),
  spread_s INTEGER NOT NULL DEFAULT 0 CHECK (spread_s BETWEEN 0 AND 86400),
  calendar_ids TEXT NOT NULL DEFAULT '[]' CHECK (json_type(calendar_ids) = 'array'),
  input TEXT NOT NULL DEFAULT '{}' CHECK (json_type(input) = 'object'),
  principal_id TEXT REFERENCES principals (id),
  observed_generation INTEGER NOT NULL DEFAULT 0,
  last_success_at INTEGER,
  CHECK ((kind = 'schedule') = (syntax IS NOT NULL AND expression IS NOT NULL)),
  CHECK (syntax IS NOT 'interval' OR start_at IS NOT NULL)
) STRICT;
CREATE INDEX triggers_due ON triggers (next_run_at) WHERE next_run_at IS NOT NULL;
CREATE INDEX triggers_of_routine ON triggers (routine_id);
CREATE INDEX triggers_unarmed ON triggers (routine_id)
  WHERE kind = 'schedule' AND enabled AND next_run_at IS NULL AND last_error IS NULL;

CREATE TABLE calendars (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name TEXT NOT NULL,
  zone TEXT NOT NULL DEFAULT 'UTC',
  dates TEXT NOT NULL DEFAULT '[]' CHECK (json_type(dates) = 'array'),
  quiet_hours TEXT NOT NULL DEFAULT '[]' CHECK (json_type(quiet_hours) = 'array'),
  windows TEXT NOT NULL DEFAULT '[]' CHECK (json_type(windows) = 'array'),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE (workspace_id, name)
) STRICT;

CREATE TABLE revisions (
  subject_id TEXT NOT NULL,
  number INTEGER NOT NULL,
  definition TEXT NOT NULL CHECK (json_type(definition) = 'object'),
  principal_id TEXT REFERENCES principals (id),
  created_at INTEGER NOT NULL,
  PRIMARY KEY (subject_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE routine_runs (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  routine_id TEXT NOT NULL REFERENCES routines (id),
  trigger_id TEXT REFERENCES triggers (id),
  source TEXT NOT NULL CHECK (source IN ('cron', 'webhook', 'manual')),
  status TEXT NOT NULL CHECK (status IN
    ('received', 'task_created', 'done', 'skipped', 'coalesced', 'failed', 'cancelled', 'missed', 'denied',
    'excluded')),
  reason TEXT,
  scheduled_for_at INTEGER,
  fired_at INTEGER NOT NULL,
  trigger_payload TEXT NOT NULL DEFAULT '{}' CHECK (json_type(trigger_payload) = 'object'),
  linked_task_id TEXT REFERENCES tasks (id),
  wakeup_id TEXT REFERENCES wakeup_requests (id),
  coalesced_into_run_id TEXT REFERENCES runs (id),
  dispatch_fingerprint TEXT NOT NULL DEFAULT '',
  idempotency_key TEXT,
  generation INTEGER NOT NULL,
  missed_count INTEGER NOT NULL DEFAULT 0,
  missed_first_at INTEGER,
  missed_last_at INTEGER,
  finished_at INTEGER,
  trigger_generation INTEGER,
  principal_id TEXT REFERENCES principals (id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX routine_runs_key ON routine_runs (routine_id, idempotency_key)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX routine_runs_active ON routine_runs (routine_id, dispatch_fingerprint)
  WHERE status = 'task_created';
CREATE INDEX routine_runs_of_wakeup ON routine_runs (wakeup_id) WHERE wakeup_id IS NOT NULL;
CREATE INDEX routine_runs_of_task ON routine_runs (linked_task_id) WHERE linked_task_id IS NOT NULL;
CREATE INDEX routine_runs_recent ON routine_runs (workspace_id, fired_at);
CREATE INDEX routine_runs_of_routine ON routine_runs (routine_id, fired_at);

CREATE TABLE runs (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  agent_id TEXT NOT NULL REFERENCES agents (id),
  task_id TEXT REFERENCES tasks (id),
  routine_id TEXT REFERENCES routines (id),
  reason TEXT NOT NULL CHECK (reason IN ('periodic', 'event')),
  source TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('queued', 'claimed', 'finished', 'failed', 'cancelled')),
  coalesced_count INTEGER NOT NULL,
  attempt INTEGER NOT NULL DEFAULT 0,
  retry_count INTEGER NOT NULL DEFAULT 0,
  lost_count INTEGER NOT NULL DEFAULT 0,
  requested_at INTEGER NOT NULL,
  eligible_at INTEGER NOT NULL,
  window_open INTEGER NOT NULL DEFAULT 0 CHECK (window_open IN (0, 1)),
  claimed_at INTEGER,
  prompted_at INTEGER,
  started_at INTEGER,
  finished_at INTEGER,
  scheduled_retry_at INTEGER,
  cancel_requested_at INTEGER,
  cancel_reason TEXT,
  outcome TEXT,
  error TEXT,
  exit_code INTEGER,
  cost_cents INTEGER,
  result TEXT CHECK (result IS NULL OR json_valid(result)),
  profile_id TEXT REFERENCES profiles (id),
  executor_id TEXT REFERENCES executors (id),
  provider_account TEXT,
  session_id TEXT REFERENCES sessions (id),
  follow_up_of TEXT REFERENCES runs (id),
  retry_of TEXT REFERENCES runs (id),
  principal_id TEXT REFERENCES principals (id),
  lane TEXT NOT NULL DEFAULT 'later' CHECK (lane IN ('later', 'blocked', 'claimable')),
  CHECK ((finished_at IS NOT NULL) = (status IN ('finished', 'failed', 'cancelled')))
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_queued_of_agent ON runs (agent_id, lane, requested_at, id) WHERE status = 'queued';
CREATE INDEX runs_claimed ON runs (agent_id) WHERE status = 'claimed';
CREATE INDEX runs_in_flight_of_task ON runs (agent_id, task_id) WHERE status IN ('queued', 'claimed');
CREATE INDEX runs_of_task ON runs (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX runs_recent ON runs (requested_at, id);
CREATE INDEX runs_later ON runs (eligible_at) WHERE status = 'queued' AND lane = 'later';

CREATE TABLE wakeup_requests (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  agent_id TEXT NOT NULL REFERENCES agents (id),
  source TEXT NOT NULL CHECK (source IN ('routine', 'comment', 'agent_error', 'self', 'user', 'task_assigned',
    'task_blockers_resolved', 'task_children_completed', 'approval_resolved', 'budget_alert')),
  payload TEXT NOT NULL CHECK (json_type(payload) = 'object'),
  periodic INTEGER NOT NULL CHECK (periodic IN (0, 1)),
  capacity TEXT NOT NULL
    CHECK (capacity IN ('assignee', 'reviewer', 'approver', 'mentioned', 'coordinator', 'none')),
  task_id TEXT REFERENCES tasks (id),
  routine_id TEXT REFERENCES routines (id),
  routine_run_id TEXT REFERENCES routine_runs (id),
  idempotency_key TEXT,
  status TEXT NOT NULL
    CHECK (status IN ('queued', 'claimed', 'coalesced', 'finished', 'failed', 'cancelled', 'skipped')),
  ending TEXT CHECK (ending IN ('delivered', 'skipped', 'cancelled', 'failed')),
  reason TEXT,
  run_id TEXT REFERENCES runs (id),
  requested_at INTEGER NOT NULL,
  scheduled_for_at INTEGER,
  delivered_at INTEGER,
  delivered_attempt INTEGER,
  held_by TEXT,
  finished_at INTEGER,
  CHECK ((finished_at IS NOT NULL) = (ending IS NOT NULL)),
  CHECK (ending IS NOT 'delivered' OR delivered_at IS NOT NULL)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX wakeup_requests_key ON wakeup_requests (workspace_id, agent_id, idempotency_key)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX wakeup_requests_of_run ON wakeup_requests (run_id, requested_at, id) WHERE run_id IS NOT NULL;
CREATE INDEX wakeup_requests_stranded ON wakeup_requests (requested_at)
  WHERE finished_at IS NULL AND run_id IS NULL AND held_by IS NULL;
CREATE INDEX wakeup_requests_open_of_agent ON wakeup_requests (agent_id, task_id) WHERE finished_at IS NULL;
CREATE INDEX wakeup_requests_open_of_routine ON wakeup_requests (routine_id)
  WHERE finished_at IS NULL AND routine_id IS NOT NULL;
CREATE INDEX wakeup_requests_recent ON wakeup_requests (requested_at, id);

CREATE TABLE run_steps (
  run_id TEXT NOT NULL REFERENCES runs (id),
  attempt INTEGER NOT NULL,
  position INTEGER NOT NULL,
  name TEXT NOT NULL CHECK (name IN ('claim', 'guard', 'staleness', 'idle_skip', 'checkout', 'budget', 'context',
    'executor', 'execution_agent', 'session', 'launch', 'finish')),
  verdict TEXT NOT NULL,
  detail TEXT,
  started_at INTEGER NOT NULL,
  duration_ms REAL NOT NULL,
  PRIMARY KEY (run_id, attempt, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  agent_id TEXT NOT NULL REFERENCES agents (id),
  task_id TEXT REFERENCES tasks (id),
  run_id TEXT NOT NULL REFERENCES runs (id),
  attempt INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('STARTING', 'RUNNING', 'WAITING_FOR_INPUT', 'ENDED')),
  created_at INTEGER NOT NULL,
  ended_at INTEGER,
  CHECK ((ended_at IS NOT NULL) = (state = 'ENDED'))
) STRICT;
CREATE INDEX sessions_of_run ON sessions (run_id);
CREATE INDEX sessions_open ON sessions (agent_id) WHERE ended_at IS NULL;

CREATE TABLE inbox_items (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  kind TEXT NOT NULL,
  title TEXT NOT NULL,
  body TEXT NOT NULL DEFAULT '',
  agent_id TEXT REFERENCES agents (id),
  task_id TEXT REFERENCES tasks (id),
  run_id TEXT REFERENCES runs (id),
  created_at INTEGER NOT NULL,
  resolved_at INTEGER
) STRICT;
CREATE INDEX inbox_open ON inbox_items (workspace_id, created_at) WHERE resolved_at IS NULL;

CREATE TABLE activity (
  id INTEGER PRIMARY KEY,
  workspace_id TEXT REFERENCES workspaces (id),
  at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  sentence TEXT NOT NULL,
  agent_id TEXT,
  run_id TEXT,
  wakeup_id TEXT,
  routine_id TEXT,
  task_id TEXT
) STRICT;
CREATE INDEX activity_at ON activity (at);

-- One row: who supervises this database, and the highest instant ever seen (a clock may step back).
CREATE TABLE supervisor (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  pid INTEGER,
  state TEXT NOT NULL CHECK (state IN ('stopped', 'recovering', 'running', 'stopping')),
  started_at INTEGER,
  seen_at INTEGER NOT NULL
) STRICT;

CREATE TABLE loops (
  name TEXT PRIMARY KEY,
  last_tick_at INTEGER NOT NULL,
  tick_count INTEGER NOT NULL,
  last_error TEXT
) STRICT;

-- Keep agents.queued_count, claimable_count, claimed_count and idle ↔ working true, whatever changes a run.
CREATE TRIGGER runs_counted_on_insert AFTER INSERT ON runs BEGIN
  UPDATE agents SET queued_count = queued_count + (new.status = 'queued'),
                    claimable_count = claimable_count + (new.status = 'queued' AND new.lane = 'claimable'),
                    claimed_count = claimed_count + (new.status = 'claimed')
  WHERE id = new.agent_id;
END;
CREATE TRIGGER runs_counted_on_update AFTER UPDATE OF status ON runs WHEN old.status <> new.status BEGIN
  UPDATE agents SET queued_count = queued_count + (new.status = 'queued') - (old.status = 'queued'),
                    claimed_count = claimed_count + (new.status = 'claimed') - (old.status = 'claimed')
  WHERE id = new.agent_id;
  UPDATE agents SET status = CASE WHEN claimed_count > 0 THEN 'working' ELSE 'idle' END
  WHERE id = new.agent_id AND status IN ('idle', 'working');
END;
CREATE TRIGGER runs_claimable_counted_on_update AFTER UPDATE OF status, lane ON runs
WHEN (old.status = 'queued' AND old.lane = 'claimable') <> (new.status = 'queued' AND new.lane = 'claimable')
BEGIN
  UPDATE agents SET claimable_count
    = claimable_count + iif(new.status = 'queued' AND new.lane = 'claimable', 1, -1)
  WHERE id = new.agent_id;
END;
CREATE TRIGGER runs_counted_on_delete AFTER DELETE ON runs BEGIN
  UPDATE agents SET queued_count = queued_count - (old.status = 'queued'),
                    claimable_count = claimable_count - (old.status = 'queued' AND old.lane = 'claimable'),
                    claimed_count = claimed_count - (old.status = 'claimed')
  WHERE id = old.agent_id;
END;

-- The lane of a run: `later` while it is not queued, and until its eligible_at has come (the claim first moves those whose instant
-- has come), `blocked` while its task is held, `claimable` when only its agent has to be free.
CREATE TRIGGER runs_wait_again AFTER UPDATE OF eligible_at ON runs
WHEN old.status = 'queued' AND new.status = 'queued' AND old.lane = new.lane AND new.lane <> 'later' BEGIN
  UPDATE runs SET lane = 'later' WHERE id = new.id;
END;
CREATE TRIGGER tasks_block_runs AFTER UPDATE OF checkout_run_id ON tasks
WHEN old.checkout_run_id IS NULL AND new.checkout_run_id IS NOT NULL BEGIN
  UPDATE runs SET lane = 'blocked' WHERE task_id = new.id AND status = 'queued' AND lane = 'claimable';
END;
CREATE TRIGGER tasks_unblock_runs AFTER UPDATE OF checkout_run_id ON tasks
WHEN old.checkout_run_id IS NOT NULL AND new.checkout_run_id IS NULL BEGIN
  UPDATE runs SET lane = 'claimable' WHERE task_id = new.id AND status = 'queued' AND lane = 'blocked';
END;

-- I8: terminal rows never change, whoever asks.
CREATE TRIGGER runs_terminal_rows_stay BEFORE UPDATE ON runs WHEN old.finished_at IS NOT NULL BEGIN
  SELECT raise(ABORT, 'a finished run never changes');
END;
CREATE TRIGGER wakeup_requests_terminal_rows_stay BEFORE UPDATE ON wakeup_requests
WHEN old.finished_at IS NOT NULL BEGIN
  SELECT raise(ABORT, 'a finished wakeup request never changes');
END;
-- I7: a reason is promoted from periodic to event, never back.
CREATE TRIGGER runs_reason_only_promoted BEFORE UPDATE OF reason ON runs
WHEN old.reason = 'event' AND new.reason = 'periodic' BEGIN
  SELECT raise(ABORT, 'a reason is never demoted');
END;
