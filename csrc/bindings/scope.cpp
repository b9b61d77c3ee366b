// profkit.scope as a C type.
