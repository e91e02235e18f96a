"""`rnnc fuzz`: compares random cells with plain torch loops."""
