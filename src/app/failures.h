// Failures that strike anywhere in the program: no memory is left, or a mapped file became shorter. One sentence and
// exit code 1, not an abort.
#pragma once

namespace smelt {

void explain_sudden_failures();

}  // namespace smelt
