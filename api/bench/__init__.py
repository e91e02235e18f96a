"""`rnnc bench`: measures contenders on the same inputs, in turns."""
