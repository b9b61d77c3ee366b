// CRC-32C.
