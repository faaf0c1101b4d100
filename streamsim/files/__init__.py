"""Files as such: read up to a size, written whole or not at all, locked; JSON and TOML with every fault explained."""
