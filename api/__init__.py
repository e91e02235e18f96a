"""rnnc: the compiler for recurrent cells."""
