// The capture file: header page, shared counters, blocks appended by one write each.
