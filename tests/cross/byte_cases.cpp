#include "cross/cases.h"
#include "support/byte_programs.h"

namespace smelt::cross {

using namespace smelt::test;

std::vector<Case> byte_cases() {
  std::vector<Case> cases;
  const auto name = [](const char* what, int lanes, int64_t range) {
    return std::string(what) + " " + std::to_string(lanes) + " lanes, bytes to " + std::to_string(range);
  };
  for (int64_t greatest : {1, 15, 63, 127, 255})
    for (int lanes : kDotLanes)
      for (bool broadcast : {false, true})
        cases.push_back(evaluated_case(name(broadcast ? "dot4 by one word," : "dot4,", lanes, greatest),
                                       dots(lanes, greatest, broadcast),
                                       {random_bytes(1, -128, 127), random_bytes(2, 0, static_cast<int>(greatest)),
                                        random_bytes(3, -128, 127), Bytes(4 * kWords)}));
  for (int64_t greatest : {15, 63, 127})
    for (int lanes : {4, 8, 12})
      cases.push_back(evaluated_case(name("dot4 in a row,", lanes, greatest), dots_in_a_row(lanes, greatest, 9),
                                     dots_in_a_row_operands(greatest, 9, -128)));
  for (int lanes : kDotLanes)
    cases.push_back(
        evaluated_case(name("mad16,", lanes, 255), mads(lanes),
                       {random_bytes(5, 0, 255), random_bytes(6, 0, 255), random_bytes(7, 0, 255), Bytes(4 * kWords)}));
  for (const auto& table : byte_tables())
    for (int lanes : kDotLanes) {
      const int last = static_cast<int>(table.size()) - 1;
      cases.push_back(evaluated_case(name("lut4,", lanes, last), look_ups(lanes, table),
                                     {random_bytes(4, 0, last), Bytes(4 * kWords)}));
    }
  for (const MatrixShape& s : kMatrixShapes)
    cases.push_back(evaluated_case("matrix product, " + std::to_string(s.m) + " rows, " + std::to_string(s.words()) +
                                       " words, " + std::to_string(s.n) + " lanes",
                                   matrix_product(s, 3), matrix_operands(s, 3)));
  return cases;
}

}  // namespace smelt::cross
