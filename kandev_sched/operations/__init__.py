"""WHAT ONE MAY ASK: a command and its function, one module per noun."""
