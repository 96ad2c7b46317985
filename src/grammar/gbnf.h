// GBNF: the notation for grammars that users of llama.cpp write.
//
//   root ::= "yes" | "no" | number          # literals, rules, alternatives
//   number ::= "-"? [0-9]{1,4} ("." [0-9]+)?  # classes, repetition, groups; . is any character
//
// A rule goes on over line ends inside of parentheses and where an alternative is still to come. In literals and
// classes:
// \n \r \t \\ \" \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH. Text is the rule `root`.
#pragma once

#include <string_view>

#include "base/result.h"
#include "grammar/grammar.h"

namespace smelt {

Result<Grammar> read_gbnf(std::string_view text);

}  // namespace smelt
