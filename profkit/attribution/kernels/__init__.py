"""What a kernel's name says of its operator, data type, tile and layout."""
