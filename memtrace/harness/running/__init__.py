"""Where a system runs: in this process or another, with callbacks that the harness owns."""
