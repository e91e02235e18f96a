"""What a call is: frozen values of plain data and tensors, which every other room reads."""
