// `smelt replay`: one dumped kernel again, beside the interpreter.
#include "engine/replay.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "app/command.h"

namespace smelt {

Action declare_replay(CLI::App& app) {
  const auto path = std::make_shared<std::string>();
  app.add_option("kernel", *path, "a file that DUMP=dir wrote, such as dir/KERNEL.ir")
      ->type_name("FILE")
      ->required();
  app.footer("Example:\n  DUMP=kernels smelt run -n 1\n  smelt replay kernels/KERNEL.ir\n");
  return [path]() -> Result<int> {
    SMELT_TRY(report, replay_kernel(*path));
    std::fputs(report.text.c_str(), stdout);
    return report.agrees ? 0 : kExitWorld;
  };
}

}  // namespace smelt
