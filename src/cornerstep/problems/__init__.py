"""Learning problems as image-space state: data, oracle, closed-form step, certificate."""
