"""The kinds of ops, as the card sees them."""

H2D, D2H, KERNEL, NOTHING = 0, 1, 2, 3  # nothing: it goes to no engine
KINDS = 4
