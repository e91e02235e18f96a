"""`rnnc.init`: initial values for the weights of `rnnc.RNN`, per head and gate."""

from .runtime.module.init import constant_, orthogonal_, xavier_normal_, xavier_uniform_

__all__ = ["constant_", "orthogonal_", "xavier_normal_", "xavier_uniform_"]
