#include "base/options.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>

namespace smelt {
namespace {

using Text = std::optional<std::string>;

Error bad_switch(const char* variable, const std::string& value, const char* expected) {
  return Error{"[options] " + std::string(variable) + ": '" + value + "' is not " + expected +
               "; unset it or correct it"};
}

Status read_level(const char* variable, const std::string& text, int& field) {
  if (text.size() != 1 || text[0] < '0' || text[0] > '6') return bad_switch(variable, text, "a level from 0 to 6");
  field = text[0] - '0';
  return {};
}

Status read_flag(const char* variable, const std::string& text, bool& field) {
  if (text != "0" && text != "1") return bad_switch(variable, text, "0 or 1");
  field = text == "1";
  return {};
}

Status read_present(const char*, const std::string&, bool& field) {
  field = true;
  return {};
}

Status read_text(const char*, const std::string& text, std::string& field) {
  field = text;
  return {};
}

// How each kind of option.def is read. An empty variable counts as one that is not set.
#define READ_Level read_level
#define READ_Flag read_flag
#define READ_Present read_present
#define READ_Text read_text

// Reads what can be read; `status` becomes the first error.
Options read_all(const OptionLookup& lookup, Status& status) {
  Options result;
#define OPTION(kind, field, variable, fallback, doc)          \
  if (Text text = lookup(variable); text && !text->empty()) { \
    Status read = READ_##kind(variable, *text, result.field); \
    if (!read && status) status = read;                       \
  }
#include "base/options.def"
#undef OPTION
  return result;
}

Text environment(const char* variable) {
  const char* text = std::getenv(variable);
  return text ? Text(text) : std::nullopt;
}

struct Environment {
  Status status;
  Options options = read_all(environment, status);
};

const Environment& the_environment() {
  static const Environment once;
  return once;
}

std::atomic<const Options*> in_force = nullptr;  // null: the environment's
std::atomic<bool> was_met = false;               // a kernel of DEBUG_KERNEL

bool is_wanted(const std::string& kernel) {
  const bool wanted = kernel.find(options().debug_kernel) != std::string::npos;
  if (wanted) was_met = true;
  return wanted;
}

}  // namespace

const Options& options() {
  const Options* scoped = in_force.load(std::memory_order_acquire);
  return scoped ? *scoped : the_environment().options;
}

Status check_environment() { return the_environment().status; }

bool debug(int level, const std::string& kernel) {
  return options().debug >= level && (kernel.empty() || is_wanted(kernel));
}

bool dumps(const std::string& kernel) { return !options().dump.empty() && is_wanted(kernel); }

bool debug_kernel_was_met() { return options().debug_kernel.empty() || was_met; }

Result<Options> parse_options(const OptionLookup& lookup) {
  Status status;
  Options result = read_all(lookup, status);
  if (!status) return status.error();
  return result;
}

std::string options_help() {
  std::string help;
  auto line = [&](std::string variable, const std::string& doc) {
    variable.resize(std::max<size_t>(variable.size() + 1, 16), ' ');
    help += variable + doc + "\n";
  };
#define OPTION(kind, field, variable, fallback, doc) line(variable, doc);
#include "base/options.def"
#undef OPTION
  return help;
}

ScopedOptions::ScopedOptions(const std::function<void(Options&)>& change) : mine_(options()), outer_(in_force.load()) {
  change(mine_);
  in_force.store(&mine_, std::memory_order_release);
}

ScopedOptions::~ScopedOptions() { in_force.store(outer_, std::memory_order_release); }

}  // namespace smelt
