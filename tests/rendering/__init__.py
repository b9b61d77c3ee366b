"""What people see of results and captures."""
