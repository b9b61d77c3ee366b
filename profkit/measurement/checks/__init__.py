"""Whether a row may be believed: is its result right, does it keep to its turns, does it live on repetition."""
