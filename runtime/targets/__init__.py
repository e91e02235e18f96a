"""Targets that kernels run on: their class, its defaults by torch, and the registry."""

from .registry import register_target, unregister_target
from .target import Target

__all__ = ["Target", "register_target", "unregister_target"]
