"""Time lines and results as text, pictures and traces; nothing here computes a prediction."""
