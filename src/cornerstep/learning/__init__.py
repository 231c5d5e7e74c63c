"""What the four learning problems share, and the protocol that their estimators fulfil."""
