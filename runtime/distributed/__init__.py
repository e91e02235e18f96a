"""`rnnc.distributed`: recurrent layers in several processes of `torch.distributed`."""
