"""memtrace: see what an agent's memory does, and hold it to its promises."""
