"""Walk plans: a thread runs all steps of a few units of a cell without dense matrices."""
