#include "runtime/metal_shim/compile.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/ensure.h"

extern "C" {
extern const char smelt_metal_stdlib[], smelt_metal_stdlib_end[];
extern char** environ;  // NOLINT: of unistd.h
}

namespace smelt {
namespace {

constexpr const char* kNames[] = {"clang++-19", "clang++", "clang++-20", "clang++-18", "clang++-17"};

// Floats as the kernels' text has them: nothing is fused or reassociated. Threads are looked at by what
// -fsanitize=thread calls for each load and store.
const std::vector<std::string> kLanguage = {"-x",
                                            "c++",
                                            "-std=c++20",
                                            "-nostdinc",
                                            "-Wno-unknown-attributes",
                                            "-fsigned-char",
                                            "-Wall",
                                            "-Werror",
                                            "-ffp-contract=off",
                                            "-Wno-unused-function",
                                            "-Wno-unused-variable",
                                            "-Wno-parentheses-equality"};
const std::vector<std::string> kCode = {"-c",
                                        "-O1",
                                        "-march=native",
                                        "-fPIC",
                                        "-fno-exceptions",
                                        "-fno-rtti",
                                        "-fno-strict-aliasing",
                                        "-fno-math-errno",
                                        "-fno-asynchronous-unwind-tables",
                                        "-fno-vectorize",
                                        "-fno-slp-vectorize",
                                        "-fsanitize=thread,alignment",
                                        "-mllvm",
                                        "-tsan-instrument-func-entry-exit=0",
                                        "-mllvm",
                                        "-tsan-instrument-memintrinsics=0"};

// A folder for one compilation.
class WorkFolder {
 public:
  WorkFolder() {
    std::error_code ignored;
    std::string pattern = (std::filesystem::temp_directory_path(ignored) / "smelt-metal-XXXXXX").string();
    if (::mkdtemp(pattern.data())) path_ = pattern;
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  bool is_there() const { return !path_.empty(); }
  std::string operator/(const char* name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

// Runs a program with its output in a file; its exit code, or -1.
int run(const std::vector<std::string>& command, const std::string& output) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int started = ::posix_spawnp(&child, arguments[0], &files, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  int status = 0;
  if (started != 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

std::string space_of(size_t kernel) { return "kernel" + std::to_string(kernel); }

// All kernels, each in a namespace of its own.
std::string text_of(std::span<const Source> kernels) {
  std::string text = "#include <metal_stdlib>\n";
  for (size_t i = 0; i < kernels.size(); ++i) text += "namespace " + space_of(i) + " {\n" + kernels[i].text + "}\n";
  return text;
}

std::string call_of(const Source& kernel, size_t number) {
  const std::string name = space_of(number) + "::" + kernel.entry;
  std::string text =
      "    case " + std::to_string(number) + ": return " + name + "(*(const " + name + "_buffers*)buffers, symbols, ";
  if (kernel.shape.shared_bytes > 0) text += "scratch, ";
  return text + "thread, part, parts);\n";
}

std::string entry_of(std::span<const Source> kernels, const std::string& symbol) {
  std::string text =
      "extern \"C\" void entry(uint kernel_number, void* const* buffers, const long* symbols,\n"
      "                      uchar* scratch, uint thread, uint part, uint parts) asm(\"" +
      symbol +
      "\");\n"
      "__attribute__((no_sanitize(\"thread\", \"alignment\")))\n"
      "void entry(uint kernel_number, void* const* buffers, const long* symbols, uchar* scratch,\n"
      "           uint thread, uint part, uint parts) {\n  switch (kernel_number) {\n";
  for (size_t i = 0; i < kernels.size(); ++i) text += call_of(kernels[i], i);
  return text + "  }\n}\n";
}

// clang's output, or empty if all went well.
std::string run_clang(const ShimCompiler& compiler, const WorkFolder& folder, const std::string& text,
                      const std::vector<std::string>& further) {
  write(folder / "metal_stdlib",
        {smelt_metal_stdlib, static_cast<size_t>(smelt_metal_stdlib_end - smelt_metal_stdlib)});
  write(folder / "kernels.metal", text);
  std::vector<std::string> command = {compiler.path, "-I", folder.path()};
  command.insert(command.end(), kLanguage.begin(), kLanguage.end());
  command.insert(command.end(), further.begin(), further.end());
  command.push_back(folder / "kernels.metal");
  if (run(command, folder / "said") == 0) return "";
  const std::string said = contents(folder / "said");
  return said.empty() ? "it does not run" : said;
}

}  // namespace

Result<ShimCompiler> find_shim_compiler() {
  const WorkFolder folder;
  if (!folder.is_there()) return Error{"[metal-shim] temporary files: none can be made; set TMPDIR to a folder"};
  for (const char* name : kNames)
    if (run({name, "--version"}, folder / "said") == 0) {
      const std::string said = contents(folder / "said");
      return ShimCompiler{name, said.substr(0, said.find('\n'))};
    }
  return Error{"[metal-shim] clang: not found; install clang 17 or later (clang-19), or use --device cpu"};
}

Result<std::string> compile_msl(const ShimCompiler& compiler, std::span<const Source> kernels,
                                const std::string& symbol) {
  const WorkFolder folder;
  if (!folder.is_there()) return Error{"[metal-shim] temporary files: none can be made; set TMPDIR to a folder"};
  std::vector<std::string> options = kCode;
  options.insert(options.end(), {"-o", folder / "object"});
  const std::string said = run_clang(compiler, folder, text_of(kernels) + entry_of(kernels, symbol), options);
  if (!said.empty()) return Error{"[metal-shim] kernel " + kernels[0].entry + ": " + compiler.path + " says: " + said};
  return contents(folder / "object");
}

std::string parse_msl(const ShimCompiler& compiler, std::span<const Source> kernels) {
  const WorkFolder folder;
  if (!folder.is_there()) return "temporary files: none can be made; set TMPDIR to a folder";
  return run_clang(compiler, folder, text_of(kernels), {"-fsyntax-only", "-DSMELT_ADDRESS_SPACES"});
}

}  // namespace smelt
