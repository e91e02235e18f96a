// lib/index.cu for a source that defines no switch. compile_flags.txt beside this file names an
// older architecture, so that an editor shows the code for that, too.
#define RNNC_PLAIN
#include "lib/index.cu"
