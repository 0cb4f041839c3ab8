"""The command line `sched`: `fast` for fire and wake, `app` for everything."""
