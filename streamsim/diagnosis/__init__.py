"""Diagnosis of a measured time: which of the usual mistakes makes a program take as long as it was measured to take."""
