"""The parts of examples/language_model.py, in the order in which a run uses them."""
