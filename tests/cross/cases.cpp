#include "cross/cases.h"

#include "base/ensure.h"
#include "codegen/program_eval.h"
#include "codegen/program_verify.h"

namespace smelt::cross {

Case evaluated_case(std::string name, Program program, std::vector<Bytes> before, std::vector<Agreement> agreements,
                    std::vector<int64_t> symbols, int64_t parts) {
  const std::string problem = problem_of(program);
  ENSURE(problem.empty(), "[cross] " + name + ": " + problem);
  std::vector<Bytes> after = before;
  std::vector<ByteSpan> spans(after.begin(), after.end());
  for (int64_t part = 0; part < parts; ++part) {
    const Status status = evaluate(program, spans, symbols, part, parts, EvalOptions{.round_f32 = true});
    ENSURE(status.ok(), "[cross] " + name + ": " + status.error().message);
  }
  agreements.resize(before.size());
  return {.name = std::move(name),
          .program = std::move(program),
          .before = std::move(before),
          .after = std::move(after),
          .agreements = std::move(agreements),
          .symbols = std::move(symbols),
          .parts = parts};
}

std::vector<Agreement> agreements_of(Ref tree, size_t buffers, double relative) {
  std::vector<Agreement> agreements(buffers);
  for (Ref n : toposort(tree)) {
    if (n->op != Op::Store || n->src[0]->op != Op::Param) continue;
    Agreement& a = agreements.at(static_cast<size_t>(n->src[0]->arg.i));
    a.dtype = n->src[2]->dtype;
    if (is_float(a.dtype)) a.relative = relative;
  }
  return agreements;
}

}  // namespace smelt::cross
