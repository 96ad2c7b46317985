#include "app/tokenize.h"

#include <cstdio>
#include <string_view>
#include <vector>

#include "app/embedded.h"
#include "gguf/gguf.h"
#include "text/tokenizer.h"

namespace smelt {
namespace {

Result<std::string> read_stdin() {
  std::string text;
  std::vector<char> block(64 << 10);
  while (size_t count = std::fread(block.data(), 1, block.size(), stdin))
    text.append(block.data(), count);
  if (std::ferror(stdin)) return Error{"[tokenize] standard input: cannot be read"};
  return text;
}

Result<Tokenizer> load_tokenizer(const std::string& path) {
  auto file = path.empty() ? GgufFile::open_memory(embedded_model(), "the embedded model")
                           : GgufFile::open(path);
  if (!file) return file.error();
  return Tokenizer::from_gguf(*file);
}

Status print(const std::vector<int32_t>& ids, bool json) {
  std::string out = json ? "[" : "";
  for (size_t i = 0; i < ids.size(); ++i) {
    if (json && i > 0) out += ", ";
    out += std::to_string(ids[i]);
    if (!json) out += '\n';
  }
  if (json) out += "]\n";
  bool written =
      std::fwrite(out.data(), 1, out.size(), stdout) == out.size() && std::fflush(stdout) == 0;
  if (!written) return Error{"[tokenize] standard output: cannot be written"};
  return {};
}

Status tokenize(const TokenizeOptions& options) {
  SMELT_TRY(tokenizer, load_tokenizer(options.model));
  std::string text = options.text;
  if (options.from_stdin) {
    SMELT_TRY(input, read_stdin());
    text = std::move(input);
  }
  return print(tokenizer.encode(text, options.parse_special, options.add_special), options.json);
}

}  // namespace

int run_tokenize(const TokenizeOptions& options) {
  Status status = tokenize(options);
  if (!status) std::fprintf(stderr, "smelt: %s\n", status.error().message.c_str());
  return status ? 0 : 1;
}

}  // namespace smelt
