"""Plots of what a run of `benchmarks.stores` found."""
