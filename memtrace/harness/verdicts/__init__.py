"""From a history to a finding for each rule, and from findings to the ledger and its words."""
