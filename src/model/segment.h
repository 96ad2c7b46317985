// Segments: the pieces that a forward pass is cut into (embed, one block for each layer, head), as graphs over slots.
//
// Each slot says what is to be bound to it. Layers of equal types and shapes give the same graph (the same pointer), so
// they share one compiled segment, replayed with other buffers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "model/layout_choice.h"

namespace smelt {

// What a token is chosen by, see choice_graph.h.
enum class ChoiceKind {
  Greedy,  // the best one, the first of equal ones
  Drawn,   // numbers of each row say how: Choice of token_choice.h
};

// What a slot holds. T is ModelShape::tokens, R is ModelShape::rows.
enum class Bound {
  Weight,         // the bytes of tensor `name`, in the slot's layout
  PositionTable,  // f32 [context, width]: the table `name` of the model, see Model::position_tables()
  Tokens,         // i32 [T]: token ids
  Positions,      // i32 [T]: each token's position in its sequence
  Tables,         // i32 [T], or [T / kGroupSize] if many_tokens: where a token's sequence begins in the page table
  Pages,          // i32 [page_entries]: the page table; page p is rows 64 p .. 64 p + 63 of the cache
  LocalPages,     // i32 [page_entries]: likewise of layers with a window, whose rows have numbers of their own
  Cache,          // the part `name` of this layer's cache, read and written: see Model::cache_parts()
  State,          // the part `name` of this layer's recurrent states, read and written: see Model::state_parts()
  StatesIn,       // i32, as Tables: the state that a token of a sequence finds, or the first one of a group; -1: what
                  // the group before, of the same part of a prompt, has left, or the token before, see rows_follow
  StatesOut,      // i32, as Tables: where the state after it goes; another one
  HiddenIn,       // f32 [T, hidden]
  HiddenOut,      // f32 [T, hidden]: written; another buffer than HiddenIn
  Rows,           // i32 [R]: the tokens (indices into T) whose logits are wanted
  Logits,         // f32 [R, vocabulary]: written; read by what chooses tokens
  Choices,        // i64 [R, kChoiceNumbers]: how a row's token is chosen, see choice_graph.h
  Chosen,         // i32 [2, R]: written: each row's token, and how many of its logits are no finite numbers
  InputSums,      // f32: written, see ModelShape::sums_inputs
};

struct SlotBinding {
  Bound kind;
  std::string name = {};     // of a Weight: the GGUF tensor, without "blk.N." in a block; of a table or a part
  double share_of_read = 1;  // of a Weight: the part of its bytes that one token reads
  WeightLayout layout = {};  // of a Weight: how its bytes must lie
  int split = 0;             // of a Weight: TensorShape::split
  std::string role = {};     // of a Weight: role_of(); empty: its layout is no choice
  std::string line = {};     // of a Weight: where the model multiplies with it, "mla.cpp:68"
  int64_t elements = 0;      // of InputSums
  // Of InputSums: what other matrices have in common with `name`, as those have that are multiplied with the same.
  std::vector<std::string> same_as = {};
};

struct Segment {
  Ref root;                        // a Sink
  std::vector<SlotBinding> slots;  // slots[i] is what slot i of root is bound to
};

constexpr int64_t kPageSize = 64;    // positions in a page of the cache
constexpr int64_t kChunkSize = 256;  // attention reads the cache in chunks of this many positions, if nobody asks else
constexpr int64_t kGroupSize = 8;  // neighbouring tokens of a prompt that are of one sequence and share its cache rows

// The sizes that a plan is made for.
//
// Each token has a position and (through Tables) a sequence; tokens later in T see the cache rows of earlier ones.
// - Attention reads positions 0 .. chunk * chunks - 1 and masks those above the token's own. So the page table names a
//   valid page for each of them (any, where the sequence is shorter), and what pages hold behind the token are finite
//   numbers, whatever the tokens of others are: zero times something else would not be zero.
// - A layer with a window reads the chunks that have a part in it, through LocalPages, and masks what is outside of it,
//   whose entries name any valid page. Positions of a group's tokens follow each other.
// - Padding tokens, which fill up T, take positions that lead to scratch rows; `context` counts these positions in.
//   Nobody else may read these. Their results are meant for nobody; they are finite where those of their sequence are.
struct ModelShape {
  Dim tokens = 1;              // T: a number; if many_tokens a variable times a multiple of kGroupSize
  bool many_tokens = false;    // bound by arithmetic, as a chunk of a prompt; else by reading weights, as decoding is
  int64_t chunk = kChunkSize;  // positions of one: as many pages as divide kChunkSize
  Dim chunks = 1;              // a variable: ceil((greatest position + 1) / chunk), padding left out
  Dim rows = 1;                // R
  int64_t context = 0;         // rows of the position tables; every position is below
  int64_t cache_rows = 0;      // pages * 64
  int64_t local_rows = 0;      // of layers with a window: pages * 64
  int64_t page_entries = 0;    // entries of a page table
  int64_t states = 0;          // recurrent states that there is room for
  bool rows_follow = false;    // of a few tokens neighbours may be of one sequence: StatesIn may be -1
  // F32, F16, or U8: bytes, see byte_cache.h, with scales for the rows.
  DType cache_type = DType::F32;
  // Pairs of token and expert in a tile, where tokens are many: a weight that was unpacked serves a whole tile. Every
  // place is computed, and the last tile of an expert is half empty in the mean: for vectors four places cost a half of
  // the unpacking that eight share, which runs beside the dots, and waste half as many.
  int64_t expert_places = 4;
  // Processors bring few streams ahead of time: where tokens are few, matrices are read one after the other.
  bool few_streams = true;
  // Of a row of activations, that share a scale where tokens are few; the other one where most weights of a block have
  // superblocks.
  int64_t token_block = 128, superblock_token_block = 128;
  // Of a row of weights and of activations, that share a scale in the products of a prompt, see Activations::wide; 0:
  // groups of weights are those of their format.
  int64_t prompt_block = 0;
  // Products of a prompt are made of halves, see Activations.
  bool halves = false;
  // Those of its attention with keys and values of bytes, too.
  bool attention_halves = false;
  // In a batch an attention multiplies halves where keys and values are bytes, and so does the output matrix, whose
  // rows are enough for all processors.
  bool halves_of_batch = false;
  // So do its other products but those of experts, if this is not 0: their rows are fewer, and sums are cut into parts
  // until there are so many tasks. Otherwise warps share sums of bytes.
  int64_t product_tasks = 0;
  // Of a prompt or a batch, whose numbers lie side by side where products read them, see ActivationLayout. T is a
  // multiple of it.
  int64_t tokens_side_by_side = 1;
  // Heads that a unit multiplies with the same keys at once, where these are bytes and tokens are few; 1: it does not.
  int64_t heads_together = 1;
  // A cache may lie as blocks of the unit that threads of a warp have (byte_cache.h).
  bool has_fragments = false;
  // Rows of quantised matrices in a group, see WeightLayout; 1: the file's bytes, whatever `layouts` say.
  int interleave = 1;
  int piece = 4;              // bytes of a row in such a group, see WeightLayout
  LayoutChoice layouts = {};  // of weights that are not to lie in such groups
  // A block leaves its rows in the cache and passes nothing on.
  bool only_cache = false;
  int64_t hidden_rows = 0;  // of the buffers of hidden values, see mtp_input()
  // Products multiply weights with activations of 8 bits, see quantise_activations().
  bool quantise = false;
  // Blocks also say what their matrices are multiplied with: for each the slot "NAME.in_sum2", the sum over tokens of
  // the squares of each of its k inputs, and for each stack of which tokens choose "NAME.counts", how often they have
  // chosen each. REQUIRES: expert_places is 1; of padding tokens, too, the squares are summed.
  bool sums_inputs = false;
  // Rows of Bound::Chosen, as a run before has left them: a token below zero is row -1 - token of it. 0: there are
  // none.
  int64_t chosen_rows = 0;
  std::optional<ChoiceKind> choice = {};  // a token is chosen behind each row of logits
};

}  // namespace smelt
