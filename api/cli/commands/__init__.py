"""The options and the help of each command, one file per command.

A shell asks for them often, so these files import torch, sympy and the like only when a command
runs.
"""
