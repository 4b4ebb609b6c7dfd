"""The boundary suite: each test is a script that a memory plays; memtrace judges what was recorded."""
