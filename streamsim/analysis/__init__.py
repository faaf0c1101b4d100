"""What a prediction says: bounds and formulas, races, the causes of lost time and their remedies, intervals."""
