// Options: every environment switch, read once. options.def is the list and its documentation.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"

namespace smelt {

namespace option_kind {
using Level = int;
using Flag = bool;
using Present = bool;
using Text = std::string;
}  // namespace option_kind

struct Options {
#define OPTION(kind, field, variable, fallback, doc) option_kind::kind field = fallback;
#include "base/options.def"
#undef OPTION
};

// The switches in force: those of the environment as it was at the first call, or of the innermost
// ScopedOptions. A switch with a bad value has its default here; check_environment says what was
// wrong with it.
const Options& options();

// The first bad value of the environment. main calls this first and exits with 2 on an error.
Status check_environment();

// Debugging output of this level and for this kernel is wanted: `if (debug(4, kernel.name))
// print(source);`
bool debug(int level, const std::string& kernel = {});

// Files are wanted of this kernel (DUMP, narrowed by DEBUG_KERNEL).
bool dumps(const std::string& kernel);

// Whether a kernel of DEBUG_KERNEL has come by; true without that switch.
bool debug_kernel_was_met();

// Reads all switches through `lookup`, which gives the text of an environment variable where it is
// set.
using OptionLookup = std::function<std::optional<std::string>(const char* variable)>;
Result<Options> parse_options(const OptionLookup& lookup);

// One line per switch: name, default, doc.
std::string options_help();

// Other switches while it lives, for tests: `ScopedOptions scope([](Options& o) { o.noopt = true;
// });` Scopes nest as blocks do. REQUIRES: made and destroyed while no other thread of the program
// reads options.
class ScopedOptions {
 public:
  explicit ScopedOptions(const std::function<void(Options&)>& change);
  ~ScopedOptions();
  ScopedOptions(const ScopedOptions&) = delete;
  ScopedOptions& operator=(const ScopedOptions&) = delete;

 private:
  Options mine_;
  const Options* outer_;
};

}  // namespace smelt
