// The command line: parses it, runs one command and turns the outcome into an exit code.
#pragma once

namespace smelt {

// Exit codes: 0 done, 1 something in the outside world is wrong, 2 the command line is wrong, 130 interrupted.
int run_command_line(int argc, char** argv);

}  // namespace smelt
