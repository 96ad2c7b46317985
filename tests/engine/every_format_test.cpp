// Small models of every architecture with weights of every format, both kinds of activations and all types of the
// cache: logits close to those of the same weights as floats, and the same bits for a sequence alone, beside others,
// behind a prefix that was found, and as a fork. Architectures take turns (model/format_turns.h); the suite `long` has
// all combinations of all models.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "base/parallel.h"
#include "engine/engine.h"
#include "model/format_turns.h"
#include "model/quantise.h"
#include "model/random_model.h"
#include "model/reference_dequant.h"
#include "model/small_models.h"
#include "support/compare_logits.h"
#include "support/effort.h"

using namespace smelt;
using namespace smelt::test;

namespace {

using Tokens = std::vector<int32_t>;
using Logits = std::vector<float>;

constexpr int kThreads = 2;       // of the long suite: threads that compile wait for each other
constexpr size_t kGenerated = 4;  // tokens of each sequence
constexpr size_t kLong = 70;      // of the first prompt: more than a page, at whose end recurrent states are kept
constexpr int32_t kVocabularySize = 96;

// Rows of all matrices are whole blocks of 256 values.
constexpr Sizes kSizes{.hidden = 256,
                       .heads = 4,
                       .kv_heads = 2,
                       .width = 64,
                       .inner = 256,
                       .vocabulary = kVocabularySize,
                       .window = 9,
                       .experts = 3,
                       .net_keys = 2,
                       .net_values = 4,
                       .net_width = 64};
const Variant kLatentSizes{.q_lora = 256,
                           .type = GgufType::F32,
                           .hidden = 256,
                           .heads = 2,
                           .latent = 256,
                           .nope = 256,
                           .value = 128,
                           .dense = 256,
                           .experts = 3,
                           .used = 2,
                           .expert = 256};

// --- models

struct Family {
  std::string name;
  std::optional<Traits> traits;  // nothing: keys and values are latents
  bool has_experts = true;

  GgufWriter floats() const {
    if (traits) return SmallTransformer(*traits, kSizes).writer;
    Variant latent = kLatentSizes;
    latent.architecture = name;
    return RandomModel(latent).writer();
  }
};

const std::vector<Family>& families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> list;
    for (Traits traits : small_models()) {
      traits.rotated = traits.rotated * kSizes.width / kWidth;
      list.push_back({traits.architecture, traits, traits.has_experts});
    }
    for (const char* latent : {"deepseek2", "glm4moelite"}) list.push_back({latent, {}});
    return list;
  }();
  return all;
}

// The first of each architecture, with experts and without.
std::vector<const Family*> families_in_turn() {
  std::vector<const Family*> list;
  std::set<std::pair<std::string, bool>> known;
  for (const Family& family : families())
    if (known.insert({family.name, family.has_experts}).second) list.push_back(&family);
  return list;
}

bool has(const std::string& name, const char* part) { return name.find(part) != std::string::npos; }

// What `smelt quantize` gives another type.
bool is_matrix(const GgufWriter::Tensor& t) {
  return t.dims.size() > 1 && t.name.ends_with(".weight") && !has(t.name, "norm") && !has(t.name, "ffn_gate_inp") &&
         !has(t.name, "ssm_conv1d");
}

std::string in_format(const std::string& floats, GgufType type) {
  const size_t count = floats.size() / sizeof(float);
  std::vector<float> values(count);
  std::memcpy(values.data(), floats.data(), floats.size());
  std::string blocks(count / info_of(type).elements * info_of(type).bytes, '\0');
  quantise(type, values, std::as_writable_bytes(std::span(blocks)));
  return blocks;
}

std::string as_floats(const std::string& blocks, GgufType type) {
  const GgufTypeInfo& info = info_of(type);
  std::string floats(blocks.size() / info.bytes * info.elements * sizeof(float), '\0');
  char* to = floats.data();
  for (size_t at = 0; at < blocks.size(); at += info.bytes) {
    const ReferenceBlock block(reinterpret_cast<const uint8_t*>(&blocks[at]));
    for (uint32_t i = 0; i < info.elements; ++i, to += sizeof(float)) {
      const float value = block.value(type, static_cast<int>(i));
      std::memcpy(to, &value, sizeof value);
    }
  }
  return floats;
}

GgufType type_in(const Formats& formats, const std::string& name) {
  if (has(name, "ffn_down_exps")) return formats.down_of_experts;
  return has(name, "ffn_") ? formats.network : formats.others;
}

// A model in these formats, and the floats that its weights stand for.
struct Pair {
  std::vector<std::byte> quantised, floats;
};

Pair pair_of(const Family& family, const Formats& formats) {
  GgufWriter quantised = family.floats(), floats = quantised;
  for (size_t i = 0; i < quantised.tensors.size(); ++i) {
    GgufWriter::Tensor& t = quantised.tensors[i];
    const GgufType type = type_in(formats, t.name);
    if (!is_matrix(t) || type == GgufType::F32 || t.dims[0] % info_of(type).elements != 0) continue;
    t.data = in_format(t.data, type);
    t.type = static_cast<uint32_t>(type);
    floats.tensors[i].data = as_floats(t.data, type);
  }
  return {quantised.bytes(), floats.bytes()};
}

// --- what an engine makes of sequences

struct Text {
  Tokens prompt, generated;
};

Text text_of(int64_t sequence) {
  const auto token = [&](size_t i) {
    return static_cast<int32_t>((29 * i + 7 * sequence + i * i / 5) % kVocabularySize);
  };
  Text text;
  const size_t length = sequence == 0 ? kLong : 10 + static_cast<size_t>(sequence);
  for (size_t i = 0; i < length; ++i) text.prompt.push_back(token(i));
  for (size_t i = length; i < length + kGenerated; ++i) text.generated.push_back(token(i));
  return text;
}

struct Failure {
  std::string what;
};

template <class T>
T taken(Result<T> result) {
  if (!result.ok()) throw Failure{result.error().message};
  return result.take();
}

std::unique_ptr<Engine> open(const GgufFile& file, const Arithmetic& a, int64_t sequences) {
  return taken(Engine::open(file,
                            {.threads = 1,
                             .context = 128,
                             .sequences = sequences,
                             .cache_type = a.cache,
                             .quantise_activations = a.in_bytes,
                             .prefill_chunk = 64,
                             .use_tuned = false},
                            {}));
}

// Logits of each token of an item, for several items.
std::vector<std::vector<Logits>> step(Engine& engine, std::span<const StepItem> items) {
  std::vector<std::vector<Logits>> rows(items.size());
  const auto keep = [&](size_t item, int64_t, std::span<const float> row) {
    rows[item].emplace_back(row.begin(), row.end());
  };
  for (StepOutcome outcome : taken(engine.step(items, keep)))
    if (outcome != StepOutcome::Done) throw Failure{"a step was not done"};
  return rows;
}

StepItem prompt_item(SequenceId id, std::span<const int32_t> tokens) {
  return {.sequence = id, .tokens = tokens, .logits = WantedLogits::All};
}
StepItem generated_item(SequenceId id, const Text& text, size_t i) {
  return {.sequence = id, .tokens = std::span(text.generated).subspan(i, 1), .is_generated = true};
}

// The logits behind every token of a text.
std::vector<Logits> alone(Engine& engine, const Text& text) {
  const SequenceId id = taken(engine.start()).id;
  const StepItem prompt = prompt_item(id, text.prompt);
  std::vector<Logits> rows = step(engine, {&prompt, 1})[0];
  for (size_t i = 0; i < text.generated.size(); ++i) {
    const StepItem item = generated_item(id, text, i);
    rows.push_back(step(engine, {&item, 1})[0].at(0));
  }
  engine.stop(id);
  return rows;
}

// What sequences of an engine should get, and what they get beside others.
class Judge {
 public:
  explicit Judge(Engine& engine) : engine_(engine) {
    for (int64_t s = 0; s < engine.most_sequences(); ++s) {
      texts_.push_back(text_of(s));
      alone_.push_back(alone(engine, texts_.back()));
    }
  }

  // In order of size.
  std::vector<double> errors(const std::vector<std::vector<Logits>>& wanted) const {
    std::vector<double> list;
    for (size_t s = 0; s < wanted.size(); ++s)
      for (size_t i = 0; i < wanted[s].size(); ++i) list.push_back(relative_error(alone_[s].at(i), wanted[s][i]));
    std::sort(list.begin(), list.end());
    return list;
  }

  // Prompts together, then generated tokens together.
  void check_batch(size_t count) {
    const std::string where = std::to_string(count) + " sequences";
    std::vector<SequenceId> ids;
    std::vector<StepItem> items;
    for (size_t s = 0; s < count; ++s) {
      ids.push_back(taken(engine_.start()).id);
      items.push_back(prompt_item(ids[s], texts_[s].prompt));
    }
    const auto prompts = step(engine_, items);
    for (size_t s = 0; s < count; ++s)
      for (size_t i = 0; i < texts_[s].prompt.size(); ++i) compare(prompts[s].at(i), s, i, "prompts of " + where);
    for (size_t i = 0; i < kGenerated; ++i) {
      for (size_t s = 0; s < count; ++s) items[s] = generated_item(ids[s], texts_[s], i);
      const auto rows = step(engine_, items);
      for (size_t s = 0; s < count; ++s) compare(rows[s].at(0), s, texts_[s].prompt.size() + i, where);
    }
    for (SequenceId id : ids) engine_.stop(id);
  }

  // A prompt that begins with one that came before: what the cache has of it is not computed again.
  void check_prefix() {
    Text longer = {texts_[0].prompt, {}};
    longer.prompt.insert(longer.prompt.end(), texts_[0].generated.begin(), texts_[0].generated.end());
    const Engine::Started started = taken(engine_.start(longer.prompt, {.generated = false}));
    const auto found = static_cast<size_t>(started.found);
    const size_t wanted_found = engine_.loaded().layout().states ? kPageSize : texts_[0].prompt.size();
    if (found != wanted_found) throw Failure{std::to_string(found) + " tokens were found of a prefix"};
    const StepItem rest = prompt_item(started.id, std::span(longer.prompt).subspan(found));
    const std::vector<Logits> rows = step(engine_, {&rest, 1})[0];
    engine_.stop(started.id);
    const std::vector<Logits> wanted = alone(engine_, longer);
    for (size_t i = 0; i < rows.size(); ++i)
      if (!same_bits(rows[i], wanted.at(found + i))) throw Failure{"other bits behind a prefix"};
  }

  // Both go on side by side.
  void check_fork() {
    const SequenceId id = taken(engine_.start()).id;
    const StepItem prompt = prompt_item(id, texts_[0].prompt);
    step(engine_, {&prompt, 1});
    go_on({id}, 0, kGenerated / 2);
    const SequenceId other = taken(engine_.fork(id));
    go_on({id, other}, kGenerated / 2, kGenerated);
    engine_.stop(id);
    engine_.stop(other);
  }

 private:
  void compare(const Logits& got, size_t text, size_t token, const std::string& where) {
    if (same_bits(got, alone_[text].at(token))) return;
    throw Failure{where + ": text " + std::to_string(text) + " has other bits at token " + std::to_string(token)};
  }

  // Sequences with the first text take these of its generated tokens.
  void go_on(const std::vector<SequenceId>& ids, size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      std::vector<StepItem> items;
      for (SequenceId id : ids) items.push_back(generated_item(id, texts_[0], i));
      for (const std::vector<Logits>& rows : step(engine_, items))
        compare(rows.at(0), 0, texts_[0].prompt.size() + i, "a fork");
    }
  }

  Engine& engine_;
  std::vector<Text> texts_;
  std::vector<std::vector<Logits>> alone_;
};

// --- many of them

struct Task {
  const Family* family;
  Formats formats;
  std::vector<Arithmetic> arithmetics;
  int64_t sequences = 8;
};

// In 8 bits some token gets another expert, and narrow random models show much of what is lost: the median counts.
std::string problem_with_values(const std::vector<double>& errors, const Arithmetic& a, double& error) {
  const bool is_in_bytes = a.in_bytes || a.cache == DType::U8;
  error = a.is_exact() ? errors.back() : errors[errors.size() / 2];
  // Of floats, the worst token: sums have another order here. All combinations reach 2.6e-5.
  if (error < (a.is_exact() ? 4e-5 : is_in_bytes ? 0.15 : 5e-3) && errors.back() < INFINITY) return "";
  return "relative error " + std::to_string(error) + ", at most " + std::to_string(errors.back());
}

std::string problem_in(const Task& task, const Arithmetic& a, const GgufFile& file,
                       const std::vector<std::vector<Logits>>& wanted, double& error) {
  const auto engine = open(file, a, task.sequences);
  Judge judge(*engine);
  if (std::string problem = problem_with_values(judge.errors(wanted), a, error); !problem.empty()) return problem;
  for (size_t count : {2, 3, 4, 8})
    if (static_cast<int64_t>(count) <= task.sequences) judge.check_batch(count);
  judge.check_prefix();
  judge.check_fork();
  return "";
}

struct Outcome {
  std::string name, problem;
  double error = 0;
};

// Of each arithmetic.
std::vector<Outcome> outcomes_of(const Task& task) {
  std::vector<Outcome> list;
  std::string name = task.family->name + " " + to_string(task.formats);
  try {
    const Pair pair = pair_of(*task.family, task.formats);
    const GgufFile quantised = taken(GgufFile::open_memory(pair.quantised));
    const GgufFile floats = taken(GgufFile::open_memory(pair.floats));
    const auto reference = open(floats, {}, 1);
    const std::vector<std::vector<Logits>> wanted = {alone(*reference, text_of(0)), alone(*reference, text_of(1))};
    for (const Arithmetic& a : task.arithmetics) {
      Outcome& outcome = list.emplace_back(Outcome{name + ", " + to_string(a), {}});
      try {
        outcome.problem = problem_in(task, a, quantised, wanted, outcome.error);
      } catch (const Failure& failure) {
        outcome.problem = failure.what;
      }
    }
  } catch (const Failure& failure) {
    list.push_back({name, failure.what});
  }
  return list;
}

void check(const std::vector<Task>& tasks, int threads = 1) {
  std::vector<std::vector<Outcome>> outcomes(tasks.size());
  for_each_in_parallel(tasks.size(), threads, [&](size_t i, int) { outcomes[i] = outcomes_of(tasks[i]); });
  for (const std::vector<Outcome>& of_task : outcomes)
    for (const Outcome& outcome : of_task) {
      MESSAGE(outcome.name << ": relative error " << outcome.error);
      CAPTURE(outcome.name);
      CHECK(outcome.problem == "");
    }
}

std::vector<Task> tasks_in_turn() {
  std::vector<Task> tasks;
  for (const Family* family : families_in_turn()) {
    const size_t model = tasks.size();
    const int64_t sequences = model % 4 == 0 ? 4 : 2;  // more of them take longer to compile
    tasks.push_back({family, formats_in_turn(model, family->has_experts), {arithmetic_in_turn(model)}, sequences});
  }
  return tasks;
}

// All that weights may be: in one format, and experts whose last matrices are plain floats.
std::vector<Task> all_tasks(const Family& family) {
  std::vector<Task> tasks;
  for (GgufType type : all_formats()) tasks.push_back({&family, Formats::all(type), all_arithmetics()});
  for (GgufType plain : kPlainFormats)
    if (family.has_experts) tasks.push_back({&family, {GgufType::Q4_K, GgufType::Q4_K, plain}, all_arithmetics()});
  return tasks;
}

}  // namespace

TEST_CASE("turns have every format, every type of the cache with both kinds of activations, and plain experts") {
  std::set<GgufType> formats, plain;
  std::set<std::pair<DType, bool>> arithmetics;
  for (const Task& task : tasks_in_turn()) {
    formats.insert({task.formats.others, task.formats.network});
    arithmetics.insert({task.arithmetics[0].cache, task.arithmetics[0].in_bytes});
    if (task.family->has_experts) plain.insert(task.formats.down_of_experts);
  }
  CHECK(formats.size() == all_formats().size());
  CHECK(arithmetics.size() == all_arithmetics().size());
  CHECK(plain.size() == kPlainFormats.size());
}

TEST_CASE("formats of weights by turns of the architectures: values, and the bits of sequences beside others" *
          doctest::test_suite("generated")) {
  check(some(tasks_in_turn()));
}

TEST_CASE("every format with every arithmetic of every architecture" * doctest::test_suite("long")) {
  for (size_t i = 0; i < families().size(); ++i) {
    const std::string name = std::to_string(i) + " " + families()[i].name;  // some have the same one
    SUBCASE(name.c_str()) { check(all_tasks(families()[i]), kThreads); }
  }
}
