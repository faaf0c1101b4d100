"""Device profiles: the numbers of a card, its link and its host; the shipped profiles; changed profiles."""
