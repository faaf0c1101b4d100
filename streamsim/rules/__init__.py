"""Each rule of the card once, as functions of whole numbers."""
