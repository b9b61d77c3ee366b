"""Reports, plots and progress of studies."""
