"""What a history shows: pure functions that the checks stand on, and scripts too where both must mean the same."""
