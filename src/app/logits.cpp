// `smelt logits`: the model's raw output, for comparison with other programs.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include "app/command.h"
#include "app/engine_flags.h"
#include "app/interrupt.h"
#include "app/number_list.h"
#include "app/sources.h"
#include "base/output_file.h"

namespace smelt {
namespace {

struct LogitsFlags {
  EngineFlags engine;
  std::vector<int64_t> ids;
  bool all = false;
  std::string output;
};

constexpr const char* kExamples =
    "The file holds 32-bit floats, little-endian, without a header: one row per position, one "
    "number per token of the\n"
    "vocabulary. Example, with numpy:\n"
    "  smelt logits --ids 416,432,258 -o logits.bin\n"
    "  python3 -c \"import numpy; print(numpy.fromfile('logits.bin', '<f4').argmax())\"\n";

// A file of float rows. Every machine that smelt compiles for is little-endian.
class RowFile {
 public:
  static Result<RowFile> create(const std::string& path) {
    std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "wb");
    if (!file) return Error{"[logits] " + path + ": cannot be written; check the folder and its permissions"};
    return RowFile(file, path);
  }

  void write(std::span<const float> row) {
    std::fwrite(row.data(), sizeof(float), row.size(), file_.get());
    if (!first_bad_ && !std::all_of(row.begin(), row.end(), [](float x) { return std::isfinite(x); }))
      first_bad_ = rows_;
    ++rows_;
  }

  // An Error also where a row has logits that are no finite numbers: all rows are in the file, to be looked at.
  Status close() {
    const bool written = std::fflush(file_.get()) == 0 && !std::ferror(file_.get());
    if (!written) return Error{"[logits] " + path_ + ": writing failed; is the disk full?"};
    if (!first_bad_) return {};
    return Error{"[logits] row " + std::to_string(*first_bad_) + " of " + std::to_string(rows_) +
                 ", counted from 0, has logits that are not finite; the model file is damaged or its weights overflow"};
  }

 private:
  struct Closer {
    void operator()(std::FILE* file) const {
      if (file != stdout) std::fclose(file);
    }
  };
  RowFile(std::FILE* file, std::string path) : file_(file), path_(std::move(path)) {}
  std::unique_ptr<std::FILE, Closer> file_;
  std::string path_;
  int64_t rows_ = 0;
  std::optional<int64_t> first_bad_;
};

Status check_ids(const std::vector<int64_t>& ids, const Session& session) {
  for (const int64_t id : ids) {
    if (id < session.vocabulary_size()) continue;
    return Error{"[logits] --ids: " + std::to_string(id) + " is not in the vocabulary; it has " +
                 std::to_string(session.vocabulary_size()) + " tokens"};
  }
  if (static_cast<int64_t>(ids.size()) <= session.context()) return {};
  return Error{"[logits] --ids: " + std::to_string(ids.size()) + " tokens do not fit a context of " +
               std::to_string(session.context()) + "; make it longer with -c"};
}

Status write_rows(Session& session, const LogitsFlags& flags, RowFile& file) {
  const std::vector<int32_t> ids(flags.ids.begin(), flags.ids.end());
  if (flags.all) {
    const auto sink = [&](int64_t, std::span<const float> logits) { file.write(logits); };
    return session.append_all(ids, sink, &interrupted());
  }
  SMELT_TRY(logits, session.append(ids, &interrupted()));
  file.write(logits);
  return {};
}

Result<int> run(const LogitsFlags& flags) {
  if (const auto place = OutputFile::open(flags.output); !place) return place.error();  // tried before the work
  SMELT_TRY(engine, open_engine(flags.engine));
  SMELT_CHECK(check_is_no_source("logits", flags.output, files_of(*engine.file)));
  SMELT_TRY(file, RowFile::create(flags.output));
  SMELT_CHECK(check_ids(flags.ids, *engine.session));
  const Status written = write_rows(*engine.session, flags, file);
  if (interrupted()) return kExitInterrupted;
  SMELT_CHECK(written);
  SMELT_CHECK(file.close());
  return 0;
}

}  // namespace

Action declare_logits(CLI::App& app) {
  const auto flags = std::make_shared<LogitsFlags>();
  add_number_list(app, "--ids", flags->ids, 0, INT32_MAX, "N,N,...", "token ids, separated by commas")->required();
  app.add_flag("--all", flags->all, "the rows of all positions, not of the last alone");
  app.add_option("-o,--output", flags->output, "file to write; -: standard output")->type_name("FILE")->required();
  declare_engine_and_device_flags(app, flags->engine);
  app.footer(kExamples);
  return [flags] { return run(*flags); };
}

}  // namespace smelt
