#include "app/bench_write.h"

#include <algorithm>
#include <span>

#include "app/command.h"
#include "app/interrupt.h"
#include "app/synthetic_model.h"
#include "base/file.h"
#include "base/new_file.h"
#include "base/progress.h"

namespace smelt {
namespace {

constexpr size_t kPieceBytes = 64 << 20;

}  // namespace

Result<int> write_synthetic(const std::string& name, const std::string& path) {
  SMELT_TRY(spec, parse_synthetic(name));
  SMELT_TRY(model, SyntheticModel::make(spec, SyntheticUse::copied));
  const std::span<const std::byte> bytes = model->file().shards()[0].bytes;
  SMELT_TRY(file, NewFile::create(path, 0644));
  Progress progress("writing", bytes.size(), ProgressUnit::bytes);
  for (size_t at = 0; at < bytes.size(); at += kPieceBytes) {
    if (interrupted()) return kExitInterrupted;
    const std::span<const std::byte> piece = bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at));
    if (write_all(file.fd(), {reinterpret_cast<const char*>(piece.data()), piece.size()}) != 0)
      return Error{"[bench] " + path + ": writing failed; is the disk full?"};
    progress.add(piece.size());
    model->release_pages();
  }
  SMELT_CHECK(file.publish());
  progress.finish();
  return 0;
}

}  // namespace smelt
