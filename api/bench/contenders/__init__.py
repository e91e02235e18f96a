"""Contenders of `rnnc bench`: rnnc's kernels, torch's RNNs, FlashRNN and plain loops."""
