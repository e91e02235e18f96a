"""Grid plans: blocks on the whole GPU share a head and exchange through L2."""
