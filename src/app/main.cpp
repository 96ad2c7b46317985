#include <cstdio>
#include <system_error>

#include "app/cli.h"
#include "app/command.h"
#include "app/failures.h"
#include "base/stack.h"
#include "base/thread.h"

namespace {

// What commands want, most of it for the compiler below us: half of what systems give by default.
constexpr size_t kWantedStack = 4 << 20;

}  // namespace

int main(int argc, char** argv) {
  smelt::explain_sudden_failures();  // first: a thread of its own may take the last of the memory
  if (smelt::stack_left() >= kWantedStack) return smelt::run_command_line(argc, argv);
  // The limit of the first thread's stack (ulimit -s) is none for the others.
  try {
    int code = 0;
    smelt::Thread([&] { code = smelt::run_command_line(argc, argv); }).join();
    return code;
  } catch (const std::system_error&) {
    std::fprintf(stderr,
                 "smelt: its stack has %zu KB, and the system gives no thread with a larger one; raise these limits "
                 "(ulimit -s, ulimit -u, ulimit -v)\n",
                 smelt::stack_left() >> 10);
    return smelt::kExitWorld;
  }
}
