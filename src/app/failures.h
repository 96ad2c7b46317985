// Failures that strike anywhere in the program: no memory is left, or a mapped file became shorter. One sentence and
// exit code 1, not an abort.
#pragma once

namespace smelt {

void explain_sudden_failures();

// From now on zeros take the place of a mapped file that became shorter, and whoever computes with it has to ask
// lost_file() (base/mapped_files.h) before anybody sees a result.
void outlive_lost_files();

}  // namespace smelt
