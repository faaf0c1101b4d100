"""Campaigns: many schedules measured, interleaved and verified, into a record."""
