"""WHAT KEEPS RUNNING: the loops of `sched serve`; a loop holds no logic."""
