"""One module a topic; each has `run(bench)`."""
