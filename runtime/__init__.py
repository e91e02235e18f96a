"""From text to torch: compilation, operators and the module."""
