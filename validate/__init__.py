"""Measures: replays streamsim's schedules on a real GPU and compares the times with the predictions."""
