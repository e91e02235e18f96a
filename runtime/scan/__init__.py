"""`rnnc.scan` and `rnnc.scan_packed`: a cell over time as functions of tensors."""
