"""The parts of the programs about kernels: what is measured, kept, fitted to costs, and written to pages."""
