"""Shipped device profiles."""
