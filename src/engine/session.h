// Session: one sequence of tokens over one model. Opening it compiles (or finds in the cache) the plans; appending
// tokens runs them. The session owns the latent cache and the working memory; the weights stay in the mapped file.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "gguf/gguf.h"
#include "graph/dtype.h"
#include "model/layout_choice.h"

namespace smelt {

struct SessionOptions {
  int threads = 0;                // 0: all cores
  int64_t context = 0;            // tokens; 0: what the model was trained for, at most 4096
  DType cache_type = DType::F32;  // F32, F16, or U8: bytes with scales (ModelShape)
  // Products take activations as 8-bit integers with a scale for each 32 (model/dequant.h has the error); else as F32.
  bool quantise_activations = true;
  int64_t prefill_chunk = 512;  // tokens appended by one run of the prefill plan
  // Copy quantised weights into the layout that kernels read fastest; else read the file in place.
  bool repack = true;
  bool use_tuned = true;      // what `smelt tune` has found (engine/tuned_options.h)
  LayoutChoice layouts = {};  // of weights that are repacked; these go over tuned ones
  bool pack_cache = false;    // keep these copies on disk, and map what an earlier start has kept
  std::optional<CpuTarget>
      target;  // what kernels are made for; this machine must run it. None: this machine
  bool use_kernel_cache = true;  // look for compiled kernels on disk, and leave them there
  uint64_t memory = 0;  // bytes that weights and session may take; 0: what the system has available
};

struct SessionStats {
  double load_seconds = 0;
  double compile_seconds = 0;
  int kernels_compiled = 0;
  int kernels_cached = 0;     // found on disk
  int kernels_per_token = 0;  // launches of one decode step
  int kernels_per_moe_layer = 0;
  int64_t bytes_per_token = 0;  // weights that one decode step reads
  int64_t memory_bytes = 0;     // cache and working memory, without the weights
};

// What one kernel has cost so far, over all its launches.
struct KernelTime {
  std::string name;
  int64_t calls = 0;
  double seconds = 0;
};

class SessionState;
enum class PlanKind;  // engine/profile.h
struct KernelDescription;
struct KernelListing;
struct PlanLaunch;
struct RunTimes;

class Session {
 public:
  // What open() tells and asks while it works. Any of it may be empty.
  struct OpenHooks {
    // What is being done ("loading", "compiling") and how much of it is done, from 0 to 1.
    std::function<void(const char* what, double fraction)> progress;
    // A sentence for the user about something that went otherwise than wished and is no error.
    std::function<void(const std::string& sentence)> note;
    // When it becomes true, open() ends with an Error: within milliseconds, or once the kernels that are being compiled
    // are finished.
    const std::atomic<bool>* cancel = nullptr;
  };
  using LogitsSink = std::function<void(int64_t index, std::span<const float> logits)>;

  // REQUIRES: `file` outlives the session.
  static Result<std::unique_ptr<Session>> open(const GgufFile& file, const SessionOptions& options,
                                               const OpenHooks& hooks);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int64_t context() const;
  int64_t position() const;  // tokens in the context now
  int64_t vocabulary_size() const;
  void reset();                   // forgets the context
  void rewind(int64_t position);  // forgets what came after. REQUIRES: position <= position().

  // Appends tokens to the context and returns the logits of the last one (valid until the next call). An Error if they
  // do not fit, if one is not in the vocabulary, or when `cancel` became true in between. REQUIRES: not empty.
  Result<std::span<const float>> append(std::span<const int32_t> tokens,
                                        const std::atomic<bool>* cancel = nullptr);

  // The same, with `sink` called for every position of `tokens` in order.
  Status append_all(std::span<const int32_t> tokens, const LogitsSink& sink,
                    const std::atomic<bool>* cancel = nullptr);

  const SessionStats& stats() const;

  // Times every launch from now on. A clock is read between launches, so runs become a little slower.
  void start_profile();
  // Since start_profile(), costliest first.
  std::vector<KernelTime> profile() const;

  // Calls `observer` after each replay of a plan, with the time of every launch; see engine/profile.h.
  void observe(std::function<void(const RunTimes&)> observer);
  std::vector<PlanLaunch> launches(PlanKind plan) const;
  // For each launch the tree of its kernel if weights of `role` lay in another layout. Empty if the schedule would be
  // another one. For trials: nothing is compiled.
  std::vector<Ref> trees_with(PlanKind plan, const std::string& role, WeightLayout layout) const;
  int kernel_count() const;
  KernelDescription kernel(int number) const;
  KernelListing listing(int kernel, bool with_assembly) const;

 private:
  explicit Session(std::unique_ptr<SessionState> state);
  std::unique_ptr<SessionState> state_;
};

}  // namespace smelt
