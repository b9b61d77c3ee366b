"""What the event sources of several frameworks share."""
