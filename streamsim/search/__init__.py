"""The best of many configurations, and sweeps over them."""
