"""WHAT EXISTS: frozen records, enums and errors; imports nothing of ours."""
