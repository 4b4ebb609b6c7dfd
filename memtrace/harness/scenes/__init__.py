"""Parts that several scripts are made of."""
