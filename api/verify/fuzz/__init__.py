"""`rnnc fuzz`: random cells against plain torch loops."""
