"""The steps of a network divided among operators, layers and phases."""
