// How an engine is to be: what decides its kernels, its memory and how many sequences it takes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/dtype.h"
#include "model/layout_choice.h"
#include "runtime/device.h"

namespace smelt {

struct EngineOptions {
  std::string device = "cpu";           // see DeviceOptions of runtime/devices.h
  std::shared_ptr<Device> opened = {};  // a device that the caller has opened, in place of one by name
  int threads = 0;                      // 0: of all cores so many as are fastest
  int64_t context = 0;                  // most tokens of a sequence; 0: what the model was trained for, at most 4096
  int64_t sequences = 1;                // that there may be at a time
  int64_t drafts = 0;                   // most tokens that a step verifies behind a generated one, see engine/drafter.h
  // Of a model with recurrent states: generated tokens of single steps that rewind() can take back one by one, as a
  // model that drafts for another one does. The last drafts it can take back without.
  int64_t back_steps = 0;
  bool mtp = false;          // the model's head for multi-token prediction drafts, see Engine::draft()
  int64_t cache_tokens = 0;  // rows of the cache, for all of them; 0: so that each may fill its context
  // Of layers with a window: how many windows are kept to go on from, besides those of sequences; {}: some, see
  // EngineLayout::add_window().
  std::optional<int64_t> kept_windows = {};
  DType cache_type = DType::F32;  // F32, F16, or U8: bytes with scales (ModelShape)
  // Products take activations as 8-bit integers with a scale for each 32 (model/dequant.h has the error); else as F32.
  bool quantise_activations = true;
  // Logits have the same bits however tokens are computed, one by one, in a batch, or as a prompt. Else prompts
  // multiply as suits a unit for matrices: halves (ModelShape::halves), or bytes in blocks of their own (prompt_block);
  // and, unless there are drafts, which count on equal bits, batches of some sequences multiply halves in a part of
  // their products (ModelShape::halves_of_batch), and a token alone has chunks of its own (Machine::near_context).
  bool deterministic = false;
  // Runs of prompts have one plan, however many tokens they have (Machine::long_prompt): a prompt then has the same
  // bits however it is divided, if not those of its tokens one by one.
  bool one_prompt_plan = false;
  // Tokens may be chosen where logits are, see Engine::begin(); by default on a device that works on while the host
  // looks at what it has chosen. Neither with drafts nor for a model with recurrent states.
  std::optional<bool> chooses_tokens = {};
  std::optional<int64_t> prefill_chunk = {};  // tokens appended by one run of the prefill plan; {}: of the machine
  // Copy quantised weights into the layout that kernels read fastest; else read the file in place.
  bool repack = true;
  // Prompts also leave what each matrix was multiplied with, see LoadedModel::input_sums(). They come in whole groups
  // of kGroupSize tokens.
  bool sums_inputs = false;
  bool use_tuned = true;            // what `smelt tune` has found (engine/tuned_options.h)
  bool only_tuned_layouts = false;  // of that the layouts alone
  LayoutChoice layouts = {};        // of weights that are repacked; these go over tuned ones
  bool pack_cache = false;          // keep these copies on disk, and map what an earlier start has kept
  bool use_kernel_cache = true;     // look for compiled kernels on disk, and leave them there
  uint64_t memory = 0;  // bytes that weights, cache and working memory may take; 0: what the system has available
};

}  // namespace smelt
