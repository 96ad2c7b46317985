// Which line of the source each line of assembly came from. Instructions get debug locations, which LLVM carries along
// and which change no code; that is not taken on trust: without its directives the marked assembly must be the plain
// one, letter by letter, or else nothing is said.
#pragma once

#include <llvm/IR/Module.h>

#include <string>
#include <string_view>

#include "runtime/source.h"

namespace smelt {

// Gives each instruction the line on which it stands in the text that the module was parsed from. False, and nothing is
// changed, where lines and instructions do not match one to one.
bool mark_lines(llvm::Module& module, std::string_view text);

// `plain`: made without marks. Of each of its lines the line of the source, from 1 on; 0: none. Empty where the two are
// not the same code.
Assembly with_lines(std::string plain, std::string_view marked);

}  // namespace smelt
