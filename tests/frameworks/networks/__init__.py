"""Networks in every framework: float64 to compare with, processes that build and record them."""
