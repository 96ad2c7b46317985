// Writes cases for a processor as what its C compiler can link: objects, a table in C, and the buffers.
#pragma once

#include <string>
#include <vector>

#include "base/target.h"
#include "cross/cases.h"

namespace smelt::cross {

// In `folder`, which exists: cases.o.list (paths of the objects, one a line), case_N.o, cases.c (the table that judge.c
// reads), buffers.S and buffers.bin. Exits with a sentence where a file cannot be written.
void write_check(const std::string& folder, const std::vector<Case>& cases, const CpuTarget& target);

}  // namespace smelt::cross
