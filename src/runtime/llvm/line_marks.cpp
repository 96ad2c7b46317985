#include "runtime/llvm/line_marks.h"

#include <llvm/BinaryFormat/Dwarf.h>
#include <llvm/IR/DIBuilder.h>

#include <cctype>
#include <charconv>
#include <vector>

namespace smelt {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string_view trimmed(std::string_view line) {
  const size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
  return line.substr(begin);
}

// The lines of bodies of functions that hold an instruction, one after the other.
std::vector<unsigned> instruction_lines(std::string_view text) {
  std::vector<unsigned> found;
  bool is_inside = false;
  unsigned number = 0;
  for (std::string_view line : lines_of(text)) {
    ++number;
    const std::string_view content = trimmed(line);
    if (content.starts_with("define "))
      is_inside = true;
    else if (content.starts_with("}"))
      is_inside = false;
    else if (is_inside && line.starts_with(" ") && !content.empty() && !content.starts_with(";"))
      found.push_back(number);
  }
  return found;
}

std::vector<llvm::Instruction*> instructions_of(llvm::Module& module) {
  std::vector<llvm::Instruction*> all;
  for (llvm::Function& function : module)
    for (llvm::BasicBlock& block : function)
      for (llvm::Instruction& instruction : block) all.push_back(&instruction);
  return all;
}

// Of a directive of lines, ".loc 1 12 0": 12.
unsigned line_of_directive(std::string_view directive) {
  directive = trimmed(directive.substr(std::string_view(".loc").size()));
  directive = trimmed(directive.substr(std::min(directive.find_first_of(" \t"), directive.size())));
  unsigned line = 0;
  std::from_chars(directive.data(), directive.data() + directive.size(), line);
  return line;
}

// What marks alone bring with them.
bool is_of_marks(std::string_view content) {
  for (std::string_view begin :
       {".file", ".cfi_", ".Ltmp", ".Lfunc_begin", ".Lfunc_end", "$L__tmp", "$L__func_begin", "$L__func_end"})
    if (content.starts_with(begin)) return true;
  return false;
}

bool is_code(std::string_view content) {
  return !content.empty() && content[0] != '.' && content[0] != '#' && content[0] != '/' && content.back() != ':';
}

struct MarkedLine {
  std::string_view text;
  int line;
};

std::vector<MarkedLine> unmarked(std::string_view marked) {
  std::vector<MarkedLine> out;
  unsigned current = 0;
  for (std::string_view line : lines_of(marked)) {
    const std::string_view content = trimmed(line);
    if (content.starts_with(".section\t.debug") || content.starts_with(".section\t\".debug")) break;
    if (content.starts_with(".loc"))
      current = line_of_directive(content);
    else if (!is_of_marks(content))
      out.push_back({line, is_code(content) ? static_cast<int>(current) : 0});
  }
  return out;
}

}  // namespace

bool mark_lines(llvm::Module& module, std::string_view text) {
  const std::vector<unsigned> lines = instruction_lines(text);
  const std::vector<llvm::Instruction*> instructions = instructions_of(module);
  if (lines.size() != instructions.size()) return false;
  module.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  llvm::DIBuilder builder(module);
  llvm::DIFile* file = builder.createFile("kernel", "");
  builder.createCompileUnit(llvm::dwarf::DW_LANG_C, file, "smelt", true, "", 0, "",
                            llvm::DICompileUnit::DebugDirectivesOnly);
  llvm::DISubroutineType* type = builder.createSubroutineType(builder.getOrCreateTypeArray({}));
  for (size_t i = 0; i < lines.size(); ++i) {
    llvm::Function* function = instructions[i]->getFunction();
    if (!function->getSubprogram())
      function->setSubprogram(builder.createFunction(file, function->getName(), "", file, lines[i], type, lines[i],
                                                     llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition));
    instructions[i]->setDebugLoc(llvm::DILocation::get(module.getContext(), lines[i], 0, function->getSubprogram()));
  }
  builder.finalize();
  return true;
}

Assembly with_lines(std::string plain, std::string_view marked) {
  Assembly out;
  const std::vector<MarkedLine> made = unmarked(marked);
  size_t at = 0;
  for (std::string_view line : lines_of(plain)) {
    const bool is_left_out = is_of_marks(trimmed(line));
    if (!is_left_out && (at >= made.size() || made[at].text != line)) {
      out.lines.clear();
      break;
    }
    out.lines.push_back(is_left_out ? 0 : made[at++].line);
  }
  out.text = std::move(plain);
  return out;
}

}  // namespace smelt
