"""The one Table, the document around it, and a writer for each format."""
