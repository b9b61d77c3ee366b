"""What `profkit doctor` looks at."""
