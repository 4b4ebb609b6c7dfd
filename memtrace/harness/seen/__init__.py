"""What a history shows: pure functions that the checks stand on."""
