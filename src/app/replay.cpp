// `smelt replay`: one dumped kernel again, beside the interpreter.
#include "engine/replay.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "app/command.h"
#include "app/engine_flags.h"
#include "app/machine_flag.h"

namespace smelt {

Action declare_replay(CLI::App& app) {
  const auto path = std::make_shared<std::string>();
  app.add_option("kernel", *path, "a file that DUMP=dir wrote, such as dir/KERNEL.ir")->type_name("FILE")->required();
  const auto with_source = std::make_shared<bool>(false);
  app.add_flag("--source", *with_source, "print the kernel's tree, program and source, too");
  const auto machine = std::make_shared<std::string>();
  CLI::Option* shown =
      declare_machine_flag(app, *machine, "show what the kernel becomes on this machine, and run nothing");
  const auto device = std::make_shared<std::string>();
  declare_device_flag(app, *device, "cpu")->excludes(shown);
  app.footer("Example:\n  DUMP=kernels smelt run -n 1\n  smelt replay kernels/KERNEL.ir\n");
  return [path, with_source, machine, device]() -> Result<int> {
    if (!machine->empty()) {
      SMELT_TRY(text, kernel_on_machine(*path, *machine));
      std::fputs(text.c_str(), stdout);
      return 0;
    }
    SMELT_TRY(report, replay_kernel(*path, *device));
    if (*with_source) std::printf("%s\n", report.source.c_str());
    std::fputs(report.text.c_str(), stdout);
    return report.agrees ? 0 : kExitWorld;
  };
}

}  // namespace smelt
