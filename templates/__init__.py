"""Text only: the templates and hand-written kernels that `codegen.render` fills in."""
