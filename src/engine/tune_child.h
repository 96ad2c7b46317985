// A search in a process of its own.
//
// Graph nodes live as long as their process, and a search makes millions of them; and a candidate may, whatever its
// checks, do something that ends the process. Both stay in a child, which sees all memory as it was (the weights are
// shared, what it writes is its own) and sends back what it found.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engine/tune.h"

namespace smelt {

// Runs `work` in a child, waits for it, and gives the text that it came to. An Error if it gave one, or if the child
// did not live to tell. The same holds as for in_child().
Result<std::string> text_from_child(const std::function<Result<std::string>()>& work);

// Runs `search` in a child and waits for it. An Error if the search gave one, or if the child did not live to tell.
// Where the system grants no process, `search` runs here. REQUIRES: no other thread of the program is at work;
// `search` uses no threads that were started before.
Result<TuneOutcome> in_child(const std::function<Result<TuneOutcome>()>& search);

// What travels: lines of a name and a value.
std::string format_outcome(const TuneOutcome& outcome);
Result<TuneOutcome> parse_outcome(std::string_view text);

}  // namespace smelt
