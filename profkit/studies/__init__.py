"""Declared sweeps over networks: TOML files in, a plan of cells, a folder of results and conclusions out."""
