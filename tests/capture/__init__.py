"""Capture files, the reader, scopes and sessions; builders of captures for the stages behind them."""
