"""Parts of scripts, for boundary tests, proofs and random scripts."""
