"""Recordings by profilers: a reader for each format, one value for all of them, parts of it, summaries, replays."""
