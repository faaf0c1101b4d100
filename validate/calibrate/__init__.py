"""Isolated micro-benchmarks, their measurement, and the profile that is fitted to them."""
