"""Cases with those who run them too: all peers, cells with stages, and cells without R."""
