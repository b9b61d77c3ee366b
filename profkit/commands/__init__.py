"""What the commands share: flags from specs and dataclasses, files opened and shown, tables printed and written."""
