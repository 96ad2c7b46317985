#include "app/profile_run.h"

#include <algorithm>

#include "app/interrupt.h"
#include "app/random_tokens.h"
#include "app/session_tokens.h"
#include "runtime/devices.h"
#include "runtime/machines.h"

namespace smelt {
namespace {

constexpr int64_t kWarmUpTokens = 3;

std::string file_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

}  // namespace

EngineOptions options_of(const ProfiledFlags& flags) {
  EngineOptions options = session_options(flags.engine);
  options.sequences = flags.parallel;
  return options;
}

Result<ProfiledModel> ProfiledModel::open(const ProfiledFlags& flags, const OpenWatch& watch) {
  ProfiledModel out;
  if (flags.synthetic.empty()) {
    SMELT_TRY(opened, open_engine(flags.engine, watch, flags.parallel));
    out.opened = std::move(opened);
    out.session = out.opened.session.get();
    out.name = file_name(out.opened.file->path());
    return out;
  }
  if (flags.prompt) return Error{"[profile] --prompt: a text says nothing to random weights; use --prompt-tokens"};
  SMELT_TRY(spec, parse_synthetic(flags.synthetic));
  SMELT_TRY(model, SyntheticModel::make(spec, use_of_weights(flags.engine.no_repack)));
  SMELT_TRY(session, open_session(model->file(), options_of(flags), watch));
  out.name = file_name(model->file().path());
  out.synthetic = std::move(model);
  out.session_of_synthetic = std::move(session);
  out.session = out.session_of_synthetic.get();
  return out;
}

ProfileRun::ProfileRun(const ProfiledFlags& flags, const ProfiledModel& model, int threads)
    : flags_(flags),
      threads_(threads),
      is_on_processor_(is_processor(model.session->loaded().device().name())),
      session_(*model.session),
      sequences_{session_.sequence()},
      collector_(session_, threads),
      prompt_(prompt_of(flags, model)),
      progress_("profiling", static_cast<uint64_t>(flags.repetitions + flags.tokens + 1)) {}

Status ProfileRun::start_sequences() {
  while (std::ssize(sequences_) < flags_.parallel) {
    SMELT_TRY(started, session_.engine().start());
    sequences_.push_back(started.id);
  }
  return {};
}

Status ProfileRun::run() {
  SMELT_CHECK(start_sequences());
  const int64_t needed =
      std::max<int64_t>(static_cast<int64_t>(prompt_.size()), flags_.depth + kWarmUpTokens + flags_.tokens);
  if (needed > session_.context())
    return Error{"[profile] " + std::to_string(needed) + " tokens do not fit a context of " +
                 std::to_string(session_.context()) + "; make it longer with -c, or -n, -d and the prompt shorter"};
  if (!prompt_.empty()) SMELT_CHECK(append(session_, prompt_));
  session_.reset();
  SMELT_CHECK(decode());
  for (int i = 0; i < prompts(); ++i) {
    if (is_on_processor_) rooflines_.measure_between(threads_);
    session_.reset();
    SMELT_CHECK(append(session_, prompt_));
    progress_.add(1);
  }
  if (is_on_processor_) rooflines_.measure(threads_);
  progress_.finish();
  return {};
}

// Each sequence has tokens of its own, which choose experts of their own.
Status ProfileRun::decode() {
  const int64_t count = std::ssize(sequences_), steps = kWarmUpTokens + flags_.tokens;
  const std::vector<int32_t> tokens = random_tokens(session_, count * (flags_.depth + steps));
  const auto contexts = std::span(tokens).first(static_cast<size_t>(count * flags_.depth));
  const auto generated = std::span(tokens).last(static_cast<size_t>(count * steps));
  if (flags_.depth > 0) SMELT_CHECK(append(session_.engine(), sequences_, contexts));
  for (int64_t i = 0; i < steps; ++i) {
    if (i == kWarmUpTokens) collector_.forget(), progress_.add(1);
    if (is_on_processor_ && i >= kWarmUpTokens) rooflines_.measure_between(threads_);
    SMELT_CHECK(extend_once(session_.engine(), sequences_,
                            generated.subspan(static_cast<size_t>(i * count), static_cast<size_t>(count))));
    if (i >= kWarmUpTokens) progress_.add(1);
  }
  for (size_t i = 1; i < sequences_.size(); ++i) session_.engine().stop(sequences_[i]);
  return {};
}

void ProfileRun::improve(MachineRates& machine) const {
  if (!is_on_processor_) return;
  machine.bytes_per_second = std::max(machine.bytes_per_second, rooflines_.of(machine.threads));
  machine.arithmetic.add(rooflines_.arithmetic(machine.threads));
}

std::vector<int32_t> ProfileRun::prompt_of(const ProfiledFlags& flags, const ProfiledModel& model) {
  if (flags.prompt) return model.opened.tokenizer->encode(*flags.prompt);
  return random_tokens(*model.session, std::min(flags.prompt_tokens, model.session->context()));
}

Result<Listed> Listed::open(const ProfiledFlags& flags) {
  Listed out;
  SMELT_CHECK(out.open_file(flags));
  const EngineFlags& e = flags.engine;
  SMELT_TRY(device, flags.machine.empty() ? open_device({.name = e.device, .threads = e.threads})
                                          : open_null_device(flags.machine));
  out.device_ = std::move(device);
  SMELT_TRY(listing, ModelPlans::make(out.file(), *out.device_, options_of(flags), &interrupted()));
  out.listing_ = std::move(listing);
  return out;
}

std::string Listed::name() const { return file_name(file().path()); }

Status Listed::open_file(const ProfiledFlags& flags) {
  if (flags.synthetic.empty()) {
    SMELT_TRY(file, open_model(flags.engine.model));
    file_ = std::make_unique<GgufFile>(std::move(file));
    return {};
  }
  SMELT_TRY(spec, parse_synthetic(flags.synthetic));
  SMELT_TRY(model, SyntheticModel::without_weights(spec));
  synthetic_ = std::move(model);
  return {};
}

}  // namespace smelt
