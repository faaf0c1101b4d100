"""What a card, its link and its host are: profiles, the shipped ones, and profiles with something changed."""
