"""`rnnc fuzz --modules`: compares calls of random modules with the reference."""
