"""`rnnc bench`: contenders on the same inputs, measured in turns."""
