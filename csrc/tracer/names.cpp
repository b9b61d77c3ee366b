// Strings, domains, categories and labels, interned once.
