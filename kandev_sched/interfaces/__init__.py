"""HOW ONE ASKS: command line (later HTTP, MCP); no SQL, no decisions."""
