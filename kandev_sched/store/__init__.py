"""WHAT IS REMEMBERED: every line of SQL."""
