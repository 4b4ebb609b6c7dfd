"""Where a system runs: in this process or another, on which store, and with callbacks that the harness owns."""
