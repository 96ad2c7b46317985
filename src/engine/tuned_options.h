// Options of kernels and layouts of weights found by `smelt tune`: remembered beside the kernel cache, used by every
// later start.
//
// An entry belongs to one kernel (a hash of its tree) on one kind of processor, made by one version of the compiler.
// It holds a hash of the program that was compared with the reference, so that options never bring code to life that
// nobody has checked: where code generation has changed since, the entry does not count.
//
// An entry of a layout belongs to a role (model/layout_choice.h) in place of a kernel. The kernels that read such
// weights have entries of their own, for their trees over that layout.
//
// The database is one text file, an entry a line, each with a checksum. It is replaced as a whole, by rename; several
// processes may use it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine.h"
#include "base/result.h"
#include "codegen/codegen.h"
#include "model/layout_choice.h"

namespace smelt {

struct TunedEntry {
  uint64_t kernel = 0;   // kernel_hash(); of a layout role_hash()
  std::string device;    // device_text()
  std::string compiler;  // compiler_text()
  uint64_t program = 0;  // program_hash() of what was checked
  double before_us = 0;  // a launch with the heuristic's options, weights in memory and not in cache
  double after_us = 0;   // and with these
  std::string name;      // for people; of a layout its role
  KernelOpts opts;
  // In place of options; the times are then of all kernels that read such weights.
  std::optional<WeightLayout> layout;
};

// Of a kernel's tree, the same in every process. Symbolic sizes count by name: how large they may get does not matter,
// so that a kernel is the same one for every length of context.
uint64_t kernel_hash(Ref tree);
uint64_t role_hash(const std::string& role);
// Of the code alone, whatever its name.
uint64_t program_hash(const Program& program);
// What options depend on of a machine, as one word: "znver4/64/32/x86/vnni/64/64/yes/yes".
std::string device_text(const Machine& machine);
// Format and compiler underneath: "3-llvm-19.1.7".
std::string compiler_text();

// "local(o0,16) front(o0.0) | none": the options of each nest.
std::string to_string(const KernelOpts& opts);
Result<KernelOpts> parse_kernel_opts(std::string_view text);

// A line of the database, without its end. An Error says what is wrong with it.
std::string format_entry(const TunedEntry& entry);
Result<TunedEntry> parse_tuned_entry(std::string_view line);

// Why the options do not fit the nests of a kernel; empty if they do.
std::string why_not_opts(Ref tree, const KernelOpts& opts, const Machine& machine);

// Called with one sentence for each entry that is dropped.
using TunedComplaint = std::function<void(const std::string& message)>;
void complain_on_stderr(const std::string& message);

// The entries for one kind of processor and the compiler of this program.
class TunedOptions {
 public:
  TunedOptions() = default;
  // Later entries of equal kernels win.
  TunedOptions(std::span<const TunedEntry> entries, const Machine& machine, TunedComplaint complain);

  // Those that are part of the program, and over them those of the database. Without a cache folder, or with a
  // database that cannot be read, the former alone.
  static TunedOptions load(const Machine& machine, TunedComplaint complain = complain_on_stderr);

  size_t size() const { return entries_.size(); }
  const TunedEntry* find(Ref tree) const;
  LayoutChoice layouts() const;

  // The kernel with its tuned options, where there are any and they still stand: they fit the tree, the program is
  // legal and is the one that was checked. Else nothing; what no longer stands is complained about and never tried
  // again. REQUIRES: request.opts is empty.
  std::optional<CodegenResult> generate(const CodegenRequest& request);

  // Complains in one sentence about all entries that code generation has left behind.
  void report_outdated();

 private:
  void drop(uint64_t kernel, const std::string& reason);

  std::map<uint64_t, TunedEntry> entries_;
  TunedComplaint complain_;
  int outdated_ = 0;
};

// --- the database

// The file in the cache folder; empty where no cache is wanted.
Result<std::string> tuned_file();

// Its lines; complains about those that are damaged. A file that is not there has none.
std::vector<TunedEntry> read_tuned(const std::string& path, const TunedComplaint& complain);

// Puts entries in, in place of those for the same kernel, device and compiler; damaged lines go. The file changes
// whole or not at all. An Error if it cannot be written.
Status remember_tuned(const std::string& path, std::span<const TunedEntry> entries);
// Takes those of these kernels out.
Status forget_tuned(const std::string& path, std::span<const TunedEntry> entries);

}  // namespace smelt
