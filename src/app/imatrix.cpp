// `smelt imatrix`: which columns of a model's matrices matter, measured over a text.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "app/checks.h"
#include "app/command.h"
#include "app/engine_flags.h"
#include "app/interrupt.h"
#include "app/sources.h"
#include "base/file.h"
#include "base/output_file.h"
#include "base/progress.h"
#include "gguf/importance.h"

namespace smelt {
namespace {

struct ImatrixFlags {
  EngineFlags engine;
  std::string text = "-";
  std::string output = "imatrix.gguf";
  std::string more;  // a file of an earlier run, to add to
  int64_t chunk = 512;
  int64_t chunks = 0;  // 0: all
};

constexpr const char* kExplanation =
    "The text is cut into chunks of tokens, each read from an empty context; the rest of the last one is dropped. For\n"
    "each matrix of a layer, and each expert, the squares of what it is multiplied with are summed, column by column.\n"
    "`smelt quantize --imatrix` keeps the weights of columns with great sums more exactly. Take some hundred chunks "
    "of\n"
    "texts such as the model will write. Files are of the form that llama-imatrix and llama-quantize read and write.\n"
    "\nExample:\n"
    "  smelt imatrix -m model-F16.gguf -f texts.txt -o imatrix.gguf\n"
    "  smelt quantize model-F16.gguf model-Q3_K_M.gguf Q3_K_M --imatrix imatrix.gguf\n";

Error imatrix_error(const std::string& where, const std::string& what) {
  return Error{"[imatrix] " + where + ": " + what};
}

// Adds the sums of a run to `out`.
Status add(const InputSums& sums, Importance& out) {
  constexpr std::string_view kSums = ".in_sum2";
  const std::map<std::string, std::vector<float>> totals = sums.totals();
  for (const auto& [name, total] : totals) {
    if (!name.ends_with(kSums)) continue;
    const std::string tensor = name.substr(0, name.size() - kSums.size());
    const auto chosen = totals.find(tensor + ".counts");
    Importance::Entry entry{total, {static_cast<float>(sums.tokens())}};
    if (chosen != totals.end()) entry.counts = chosen->second;
    SMELT_CHECK(add_entry(tensor, entry, out));
  }
  return {};
}

// Matrices of which the text says nothing: experts that no token has chosen.
void note_unseen(const Importance& importance) {
  int64_t unseen = 0, all = 0;
  for (const auto& [name, entry] : importance.entries)
    for (float count : entry.counts) unseen += count == 0, ++all;
  if (unseen > 0)
    std::fprintf(stderr, "%lld of %lld matrices were never used by this text; a longer one tells more\n",
                 static_cast<long long>(unseen), static_cast<long long>(all));
}

Result<std::vector<int32_t>> tokens_of(const ImatrixFlags& flags, const Tokenizer& tokenizer, const std::string& text) {
  std::vector<int32_t> ids = tokenizer.encode(text, false, false);
  const auto chunk = static_cast<size_t>(flags.chunk);
  if (ids.size() < chunk)
    return imatrix_error(flags.text, std::to_string(ids.size()) + " tokens are fewer than one chunk of " +
                                         std::to_string(chunk) + "; take a longer text or a smaller --chunk");
  size_t chunks = ids.size() / chunk;
  if (flags.chunks) chunks = std::min(chunks, static_cast<size_t>(flags.chunks));
  ids.resize(chunks * chunk);
  if (tokenizer.adds_bos() && tokenizer.bos())
    for (size_t i = 0; i < ids.size(); i += chunk) ids[i] = *tokenizer.bos();
  return ids;
}

// How many chunks were read.
Result<int64_t> read_chunks(Session& session, std::span<const int32_t> ids, int64_t chunk) {
  const int64_t chunks = std::ssize(ids) / chunk;
  Progress progress("imatrix", static_cast<uint64_t>(chunks));
  int64_t done = 0;
  for (; done < chunks; ++done) {
    session.reset();
    const auto logits = session.append(ids.subspan(static_cast<size_t>(done * chunk), chunk), &interrupted());
    if (interrupted()) break;
    SMELT_CHECK(logits ? Status() : Status(logits.error()));
    progress.add(1);
  }
  progress.finish();
  return done;
}

Result<int> run(ImatrixFlags flags) {
  Importance importance;
  if (!flags.more.empty()) {
    SMELT_TRY(more, read_importance(flags.more));
    importance = std::move(more);
  }
  SMELT_TRY(text, read_stream(flags.text));
  SMELT_TRY(output, OutputFile::open(flags.output));
  if (flags.engine.context == 0) flags.engine.context = flags.chunk;
  flags.engine.sums_inputs = true;
  SMELT_TRY(engine, open_engine(flags.engine));
  SMELT_CHECK(check_is_no_source("imatrix", flags.output, files_of(*engine.file)));
  SMELT_TRY(ids, tokens_of(flags, *engine.tokenizer, text));
  SMELT_TRY(done, read_chunks(*engine.session, ids, flags.chunk));
  if (interrupted()) {
    std::fprintf(stderr, "stopped: interrupted after %lld chunks; nothing is written\n", static_cast<long long>(done));
    return kExitInterrupted;
  }
  SMELT_CHECK(add(engine.session->loaded().input_sums(), importance));
  importance.datasets.push_back(flags.text);
  importance.chunks += static_cast<uint32_t>(done);
  importance.chunk_size = static_cast<uint32_t>(flags.chunk);
  note_unseen(importance);
  SMELT_CHECK(output.write(importance_file(importance)));
  if (flags.output != "-")
    std::printf("%lld chunks of %lld tokens, %zu tensors: %s\n", static_cast<long long>(done),
                static_cast<long long>(flags.chunk), importance.entries.size(), flags.output.c_str());
  return 0;
}

}  // namespace

Action declare_imatrix(CLI::App& app) {
  const auto flags = std::make_shared<ImatrixFlags>();
  app.add_option("-f,--file", flags->text, "the text to read; -: standard input")->type_name("FILE");
  app.add_option("-o,--output", flags->output, "the file to write")->type_name("FILE");
  app.add_option("--in-file", flags->more, "add to what this importance matrix has")->type_name("FILE");
  app.add_option("--chunk", flags->chunk, "tokens in a chunk, a multiple of 8")
      ->type_name("N")
      ->check(whole_number(8, 1 << 20))
      ->check([](const std::string& text) {
        return std::stoll(text) % 8 == 0 ? std::string() : "--chunk: " + text + " is no multiple of 8";
      });
  app.add_option("--chunks", flags->chunks, "read only so many; 0: all")
      ->type_name("N")
      ->check(whole_number(0, 1 << 30));
  declare_engine_and_device_flags(app, flags->engine);
  app.footer(kExplanation);
  return [flags] { return run(*flags); };
}

}  // namespace smelt
