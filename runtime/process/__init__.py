"""The process around a call: the line that called, and the turns of its threads."""
