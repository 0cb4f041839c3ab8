"""WHAT IS DECIDED: values in, a decision out; no clock, no SQL, no thread."""
