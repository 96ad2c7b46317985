// cross_cases FOLDER TARGET...: writes the cases of tests/cross for each target into FOLDER/TARGET. tools/cross_check
// links and runs them.
#define DOCTEST_CONFIG_IMPLEMENT  // the helpers of tests/support make assertions
#include <doctest/doctest.h>

#include <filesystem>
#include <iostream>

#include "cross/write_check.h"
#include "engine/compile.h"
#include "runtime/target.h"

using namespace smelt;

namespace {

constexpr int kGraphs = 60;

std::vector<cross::Case> all_cases(const Machine& machine) {
  static const std::vector<cross::Case> of_bytes = cross::byte_cases(), of_ops = cross::op_cases();
  std::vector<cross::Case> cases;
  for (const auto& some : {of_bytes, of_ops, cross::product_cases(machine), cross::graph_cases(machine, kGraphs)})
    cases.insert(cases.end(), some.begin(), some.end());
  return cases;
}

void assertion(const doctest::AssertData& data) {
  if (!data.m_failed) return;
  std::cerr << data.m_file << ":" << data.m_line << ": " << data.m_expr << "\n";
  std::exit(1);
}

int run(const std::string& folder, const std::vector<std::string>& names) {
  std::vector<cross::Case> cases;
  Machine machine;
  for (const std::string& name : names) {
    const Result<CpuTarget> target = named_target(name);
    if (!target) {
      std::cerr << target.error().message << "\n";
      return 1;
    }
    const Machine wanted = machine_of(*target);
    if (cases.empty() || wanted.vector_bytes != machine.vector_bytes || wanted.registers != machine.registers ||
        wanted.matrix_units != machine.matrix_units)
      cases = all_cases(machine = wanted);
    std::error_code error;
    std::filesystem::create_directories(folder + "/" + name, error);
    cross::write_check(folder + "/" + name, cases, *target);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  doctest::Context context;
  context.setAsDefaultForAssertsOutOfTestCases();
  context.setAssertHandler(assertion);
  if (argc < 3) {
    std::cerr << "usage: cross_cases FOLDER TARGET...\n";
    return 2;
  }
  return run(argv[1], {argv + 2, argv + argc});
}
