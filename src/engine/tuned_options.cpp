#include "engine/tuned_options.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "base/dirs.h"
#include "base/file.h"
#include "base/from_chars.h"
#include "base/hex.h"
#include "codegen/block_threads.h"
#include "graph/on_chip.h"
#include "graph/text.h"
#include "runtime/llvm/compile.h"

namespace smelt {
namespace {

constexpr std::string_view kHeader =
    "# smelt tuned options: checksum kernel device compiler program before_us after_us name "
    "options";
constexpr int kFormat = 3;  // raise it when options come to mean something else
constexpr uint64_t kLargestFile = 64 << 20;
constexpr int64_t kAnySize = int64_t{1} << 20;
constexpr std::string_view kNoOptions = "none", kBetweenNests = " | ", kLayout = "layout=";

uint64_t hash_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

// Takes words off the front of a line.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}

  std::string_view next() {
    const size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return word;
  }

  bool number(double& out) {
    const std::string_view word = next();
    const char* end = word.data() + word.size();
    const auto [p, error] = from_chars(word.data(), end, out);
    return !word.empty() && error == std::errc() && p == end;
  }
  bool hash(uint64_t& out) {
    const std::string_view word = next();
    const char* end = word.data() + word.size();
    const auto [p, error] = std::from_chars(word.data(), end, out, 16);
    return !word.empty() && error == std::errc() && p == end;
  }

  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

bool is_same_key(const TunedEntry& a, const TunedEntry& b) {
  return a.kernel == b.kernel && a.device == b.device && a.compiler == b.compiler;
}

// Held while the database is read, changed and written, by whichever process.
class Lock {
 public:
  explicit Lock(const std::string& path)
      : fd_(::open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {
    while (fd_ >= 0 && ::flock(fd_, LOCK_EX) != 0)
      if (errno != EINTR) return;
    is_held_ = fd_ >= 0;
  }
  ~Lock() {
    if (fd_ >= 0) ::close(fd_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  bool is_held() const { return is_held_; }

 private:
  int fd_;
  bool is_held_ = false;
};

Status change(const std::string& path, std::span<const TunedEntry> without, std::span<const TunedEntry> with) {
  const Lock lock(path);
  if (!lock.is_held())
    return Error{"[tuned] " + path + ".lock: cannot be locked (" + std::strerror(errno) +
                 "), so other programs could be writing there; set SMELT_CACHE to a folder on a local disk"};
  std::string text = std::string(kHeader) + "\n";
  for (const TunedEntry& entry : read_tuned(path, {})) {
    const bool goes =
        std::any_of(without.begin(), without.end(), [&](const TunedEntry& w) { return is_same_key(w, entry); });
    if (!goes) text += format_entry(entry) + "\n";
  }
  for (const TunedEntry& entry : with) text += format_entry(entry) + "\n";
  return publish_file(path, text);
}

// All threads of a block pass on what those of a nest do, so that a nest of more threads takes on-chip memory in the
// others.
std::string why_not_together(Ref tree, const std::vector<Refs>& nests, const Machine& machine) {
  int threads = 1;
  int64_t passed_on = 0;
  for (const Refs& stores : nests) threads = std::max(threads, threads_of(stores));
  for (const Refs& stores : nests) passed_on = std::max(passed_on, exchange_bytes(stores, threads));
  return why_too_much_on_chip(bytes_on_chip({&tree, 1}) + passed_on, on_chip_scope(machine));
}

}  // namespace

uint64_t kernel_hash(Ref tree) {
  return hash_of(print(rebuild(tree, [](Ref original, Ref rebuilt) {
    return original->op == Op::Var ? variable(original->arg.name, 1, kAnySize) : rebuilt;
  })));
}

uint64_t role_hash(const std::string& role) { return hash_of("role " + role); }

uint64_t program_hash(const Program& program) {
  Program nameless = program;
  nameless.name.clear();
  return hash_of(print(nameless));
}

std::string device_text(const Machine& machine) {
  constexpr std::string_view kDecides[] = {"isa",      "vector_bytes",   "registers",
                                           "byte_dot", "byte_dot_bytes", "shuffle_bytes",
                                           "fma",      "f16_convert",    "matrix unit"};
  std::string text = machine.name;
  for (const MachineField& f : fields_of(machine))
    if (std::find(std::begin(kDecides), std::end(kDecides), f.name) != std::end(kDecides)) text += "/" + f.value;
  std::replace(text.begin(), text.end(), ' ', '_');
  return text;
}

std::string compiler_text() { return std::to_string(kFormat) + "-llvm-" + llvm_version(); }

std::string to_string(const KernelOpts& opts) {
  std::string text;
  for (const std::vector<Opt>& nest : opts) {
    if (!text.empty()) text += kBetweenNests;
    text += nest.empty() ? std::string(kNoOptions) : to_string(nest);
  }
  return text;
}

Result<KernelOpts> parse_kernel_opts(std::string_view text) {
  KernelOpts opts;
  while (true) {
    const size_t end = text.find(kBetweenNests);
    const std::string_view nest = text.substr(0, end);
    SMELT_TRY(parsed, nest == kNoOptions ? std::vector<Opt>() : parse_opts(nest));
    if (nest != kNoOptions && parsed.empty()) return Error{"[opt] a nest has neither options nor `none`"};
    opts.push_back(std::move(parsed));
    if (end == std::string_view::npos) return opts;
    text.remove_prefix(end + kBetweenNests.size());
  }
}

std::string format_entry(const TunedEntry& entry) {
  char times[64];
  std::snprintf(times, sizeof times, " %.3f %.3f ", entry.before_us, entry.after_us);
  const std::string line = hex(entry.kernel) + " " + entry.device + " " + entry.compiler + " " + hex(entry.program) +
                           times + entry.name + " " +
                           (entry.layout ? std::string(kLayout) + to_string(*entry.layout) : to_string(entry.opts));
  return hex(hash_of(line)) + " " + line;
}

Result<TunedEntry> parse_tuned_entry(std::string_view line) {
  Words words(line);
  uint64_t checksum = 0;
  if (!words.hash(checksum)) return Error{"it does not begin with a checksum"};
  if (checksum != hash_of(words.rest())) return Error{"it does not have its checksum"};
  TunedEntry entry;
  bool ok = words.hash(entry.kernel);
  entry.device = words.next();
  entry.compiler = words.next();
  ok = ok && words.hash(entry.program) && words.number(entry.before_us) && words.number(entry.after_us);
  entry.name = words.next();
  if (!ok) return Error{"it is not of this form"};
  if (words.rest().starts_with(kLayout)) {
    entry.layout = parse_layout(words.rest().substr(kLayout.size()));
    if (!entry.layout || entry.kernel != role_hash(entry.name)) return Error{"its layout is none for this role"};
    return entry;
  }
  SMELT_TRY(opts, parse_kernel_opts(words.rest()));
  entry.opts = std::move(opts);
  return entry;
}

std::string why_not_opts(Ref tree, const KernelOpts& opts, const Machine& machine) {
  if (opts.size() != tree->src.size())
    return std::to_string(opts.size()) + " lists of options for " + std::to_string(tree->src.size()) + " nests";
  std::vector<Refs> nests;
  for (size_t i = 0; i < opts.size(); ++i) {
    Refs stores = prepare_nest(tree->src[i], machine);
    for (const Opt& opt : opts[i]) {
      OptResult result = try_opt(stores, opt, lane_rules(machine));
      if (!result) return result.why_not;
      stores = std::move(result.stores);
    }
    nests.push_back(std::move(stores));
  }
  return machine.has_threads() ? why_not_together(tree, nests, machine) : "";
}

void complain_on_stderr(const std::string& message) { std::fprintf(stderr, "smelt: %s\n", message.c_str()); }

TunedOptions::TunedOptions(std::span<const TunedEntry> entries, const Machine& machine, TunedComplaint complain)
    : complain_(std::move(complain)) {
  const std::string device = device_text(machine), compiler = compiler_text();
  for (const TunedEntry& entry : entries)
    if (entry.device == device && entry.compiler == compiler) entries_[entry.kernel] = entry;
}

LayoutChoice TunedOptions::layouts() const {
  LayoutChoice layouts;
  for (const auto& [kernel, entry] : entries_)
    if (entry.layout) layouts[entry.name] = *entry.layout;
  return layouts;
}

TunedOptions TunedOptions::load(const Machine& machine, TunedComplaint complain) {
  std::vector<TunedEntry> entries;
  // A cache folder that cannot be used is complained about by those who need it.
  if (const Result<std::string> path = tuned_file(); path && !path->empty()) entries = read_tuned(*path, complain);
  return TunedOptions(entries, machine, std::move(complain));
}

const TunedEntry* TunedOptions::find(Ref tree) const {
  if (entries_.empty()) return nullptr;
  const auto found = entries_.find(kernel_hash(tree));
  return found == entries_.end() ? nullptr : &found->second;
}

void TunedOptions::drop(uint64_t kernel, const std::string& reason) {
  const auto entry = entries_.find(kernel);
  if (complain_ && !reason.empty())
    complain_("[tuned] " + entry->second.name + ": " + reason + "; the options are not used, run `smelt tune` again");
  entries_.erase(entry);
}

std::optional<CodegenResult> TunedOptions::generate(const CodegenRequest& request) {
  const TunedEntry* entry = find(request.tree);
  if (!entry) return std::nullopt;
  const uint64_t kernel = entry->kernel;
  if (const std::string reason = why_not_opts(request.tree, entry->opts, request.machine); !reason.empty()) {
    drop(kernel, reason);
    return std::nullopt;
  }
  CodegenRequest tuned = request;
  tuned.opts = entry->opts;
  CodegenResult result = smelt::generate(tuned);
  if (program_hash(result.program) == entry->program) return result;
  ++outdated_;
  drop(kernel, "");
  return std::nullopt;
}

void TunedOptions::report_outdated() {
  if (outdated_ > 0 && complain_)
    complain_("[tuned] " + std::to_string(outdated_) + (outdated_ == 1 ? " kernel was" : " kernels were") +
              " tuned by a version of smelt that made other code; the options are not used, run "
              "`smelt tune` again");
  outdated_ = 0;
}

Result<std::string> tuned_file() {
  SMELT_TRY(folder, cache_folder());
  return folder.empty() ? folder : folder + "/tuned.txt";
}

std::vector<TunedEntry> read_tuned(const std::string& path, const TunedComplaint& complain) {
  std::vector<TunedEntry> entries;
  if (::access(path.c_str(), F_OK) != 0) return entries;
  const Result<std::string> text = read_file(path, kLargestFile);
  if (!text && complain) complain(text.error().message);
  if (!text) return entries;
  int number = 0;
  for (std::string_view rest = *text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    if (line.empty() || line.front() == '#') continue;
    Result<TunedEntry> entry = parse_tuned_entry(line);
    if (entry)
      entries.push_back(entry.take());
    else if (complain)
      complain("[tuned] " + path + ": line " + std::to_string(number) + ": " + entry.error().message +
               "; the entry is not used, `smelt tune` removes it");
  }
  return entries;
}

Status remember_tuned(const std::string& path, std::span<const TunedEntry> entries) {
  return change(path, entries, entries);
}

Status forget_tuned(const std::string& path, std::span<const TunedEntry> entries) { return change(path, entries, {}); }

}  // namespace smelt
