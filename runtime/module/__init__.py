"""`rnnc.RNN` and the weights of a module."""
